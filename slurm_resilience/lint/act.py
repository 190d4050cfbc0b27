"""Scripts read, and replaced whole."""

import stat
from pathlib import Path

from slurm_resilience.errors import UntrustedFileError, UsageError
from slurm_resilience.files import read_bounded, replace
from slurm_resilience.plain import plain

MOST_BYTES = 1 << 20
"""A script of more is no script that a person wrote."""


def read(path: Path) -> str:
    """
    The text of *path*; bytes that are no UTF-8 come through `write` unharmed.

    Raises `UsageError`: no such file, not a file, too large.
    """
    try:
        data = read_bounded(path.resolve(strict=True), most_bytes=MOST_BYTES)
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{plain(str(path))}: {plain(why)}; name an sbatch file") from error
    except UntrustedFileError as error:
        raise UsageError(f"{plain(str(error))}; name an sbatch file") from error
    return data.decode("utf-8", errors="surrogateescape")


def write(path: Path, old: str, new: str) -> None:
    """
    Put *new* in the place of *old*, the file's mode and owner kept; all of it or nothing.

    Raises `UsageError` where that cannot be: a link or a second name (the other would stay as it
    was), a file that its owner may not write, an owner that cannot be given, or content that is no longer *old*.
    """
    shown = plain(str(path))
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise UsageError(f"{shown}: is a link or has a second name; --fix the file itself")
        if not status.st_mode & stat.S_IWUSR:
            raise UsageError(f"{shown}: is read-only; chmod u+w it, or mend it by hand")
        if read(path) != old:
            raise UsageError(
                f"{shown}: was changed meanwhile; nothing is written, lint it again"
            )
        replace(
            path,
            new.encode("utf-8", errors="surrogateescape"),
            mode=stat.S_IMODE(status.st_mode),
            owner=(status.st_uid, status.st_gid),
        )
    except OSError as error:
        raise UsageError(f"{shown}: {error.strerror}; nothing is written") from error
