"""Files that are replaced whole, and files that are read without trusting who wrote them."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from slurm_resilience.errors import UntrustedFileError


def replace(
    path: Path, data: bytes, *, mode: int = 0o644, owner: tuple[int, int] | None = None
) -> None:
    """
    Put *data* at *path* so that a crash leaves the old file or the new one.

    The file and its directory are fsynced: after return the new content survives a power loss.
    *owner* (user id, group id): whose it will be, in a folder that may be theirs: *mode* is then exact,
    and whatever stands under the fresh file's name raises `FileExistsError`. None: the caller's, with
    the caller's umask.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_EXCL if owner else os.O_TRUNC)
    descriptor = os.open(fresh, flags, 0o600 if owner else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if owner:
                os.fchown(file.fileno(), *owner)
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames and new names in *path* survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bounded(path: Path, *, most_bytes: int, owners: frozenset[int] | None = None) -> bytes:
    """
    The content of a regular file, without following a link or waiting for a pipe.

    Raises `UntrustedFileError` for a link, anything not a plain file, an owner outside *owners*
    (user ids; None: whoever), or more than *most_bytes*; `FileNotFoundError` where there is none.
    """
    refuse = refusing(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refuse(error.strerror or "cannot be opened") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise refuse("not a plain file")
        if owners is not None and status.st_uid not in owners:
            raise refuse(f"belongs to user id {status.st_uid}")
        if status.st_size > most_bytes:
            raise refuse(f"larger than {most_bytes} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > most_bytes:
        raise refuse(f"larger than {most_bytes} bytes")
    return data


def refusing(path: Path) -> Callable[[str], UntrustedFileError]:
    """A maker of one-line refusals that name *path*."""
    return lambda why: UntrustedFileError(f"{path}: {why}; not used")
