"""Which checkpoints a directory holds, and which of them are sound."""

import errno
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.checkpoint_files import index, values
from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.digest import digest
from slurm_resilience.checkpoint_files.manifest import File, Manifest
from slurm_resilience.errors import (
    CheckpointError,
    CheckpointLoadError,
    CheckpointPlaceError,
    CheckpointVersionError,
    UntrustedFileError,
)
from slurm_resilience.files import read_bounded
from slurm_resilience.plain import plain

PREFIX = "step-"
NAMED = re.compile(rf"{PREFIX}\d+")
"""What else lies there, `step-000000007.best` or `step-notes`, is the user's."""
MOST_SHOWN = 200


NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}


class Unread(str):
    """A problem that says nothing about the checkpoint itself: the system could not read it."""

    __slots__ = ()


class Newer(str):
    """A problem that is none of the checkpoint: a newer version of this package wrote it."""

    __slots__ = ()


class Senseless(str):
    """A problem of what is as it was written and cannot be loaded: a fault made it so, or harm."""

    __slots__ = ()


class Found(NamedTuple):
    """A directory that should be a checkpoint."""

    path: Path
    manifest: Manifest | None
    problem: str = ""
    """Why there is no manifest."""


def directory_name(step: int) -> str:
    """The name of the checkpoint of *step*; for people: order goes by the manifest."""
    return f"{PREFIX}{step:09d}"


def found(directory: Path) -> list[Found]:
    """
    All checkpoints in *directory*, or the one that it is: the newest first by the step in their
    manifest, those without a readable manifest last.

    Raises `CheckpointPlaceError` where the directory cannot be read.
    """
    try:
        if (directory / manifests.NAME).is_file():
            return [look(directory)]
        names = sorted(path.name for path in directory.iterdir() if NAMED.fullmatch(path.name))
    except OSError as error:
        raise CheckpointPlaceError(f"{shown(directory)}: {error.strerror}") from error
    except ValueError as error:  # no name at all: a NUL in it
        raise CheckpointPlaceError(f"{shown(directory)}: {error}") from error
    entries = [look_by_name(directory / name) for name in reversed(names)]
    return sorted(entries, key=step_of, reverse=True)


def shown(path: Path) -> str:
    """The name of *path* for a message of one line."""
    return plain(str(path), most=MOST_SHOWN)


def look(path: Path) -> Found:
    """The directory *path* as a checkpoint."""
    try:
        return Found(path, manifests.read(path))
    except CheckpointVersionError as error:
        return Found(path, None, Newer(error))
    except CheckpointError as error:
        return Found(path, None, _told(error))


def look_by_name(path: Path) -> Found:
    """As `look`; unsound also where *path* has not the name of its step."""
    entry = look(path)
    if entry.manifest is None or path.name == directory_name(entry.manifest.step):
        return entry
    why = f"{manifests.NAME} is of step {entry.manifest.step}, which its name is not"
    return Found(path, None, why)


def step_of(entry: Found) -> int:
    """The step of a checkpoint; -1 where it cannot be known."""
    return entry.manifest.step if entry.manifest else -1


def problems(entry: Found, *, share: int = 0, shares: int = 1) -> Iterator[str]:
    """
    What is wrong with a checkpoint; nothing: it is sound.

    All sizes are looked at, and the content of this *share* of the files (of none where *shares* is
    0), so that as many ranks can verify a large checkpoint together: its digest, and of the index
    and the values also whether a checkpoint can be loaded by them.
    """
    if entry.manifest is None:
        yield entry.problem
        return
    mine = dealt(entry.manifest.files, share, shares)
    for name, wanted in sorted(entry.manifest.files.items()):
        read = name in mine
        problem = _problem(entry.path / name, wanted, read=read)
        if read and not problem:
            problem = senseless(entry.path / name, entry.manifest)
        if problem:
            yield problem


def dealt(files: Mapping[str, File], share: int, shares: int) -> frozenset[str]:
    """Which of *files* are this share of *shares*: dealt out from the largest on, so that all are even."""
    if not shares:
        return frozenset()
    largest_first = sorted(files, key=lambda name: (-files[name].size_bytes, name))
    return frozenset(largest_first[share::shares])


def senseless(path: Path, manifest: Manifest) -> str:
    """
    Why a file that is as it was written cannot be loaded; empty: it can, as far as is looked at. That
    is the index, and values that are not large.
    """
    size_bytes = manifest.files[path.name].size_bytes
    try:
        if path.name == manifests.INDEX:
            data = read_bounded(path, most_bytes=size_bytes)
            index.parsed(data, manifest.files, partial=manifest.part is not None)
        elif path.suffix == values.SUFFIX and size_bytes <= values.MOST_BYTES:
            values.check(read_bounded(path, most_bytes=size_bytes))
    except OSError as error:
        return _unreadable(path, error)
    except UntrustedFileError as error:
        return str(error)
    except CheckpointLoadError as error:
        return Senseless(f"{path.name}: {error}")
    return ""


def _problem(path: Path, wanted: File, *, read: bool) -> str:
    try:
        size_bytes = path.lstat().st_size
        if size_bytes != wanted.size_bytes:
            return f"{path.name} has {size_bytes} bytes instead of {wanted.size_bytes}"
        if read and digest(path) != wanted:
            return f"{path.name} is damaged: its digest differs"
    except OSError as error:
        return _unreadable(path, error)
    except CheckpointError as error:
        return _told(error)
    return ""


def _unreadable(path: Path, error: OSError) -> str:
    text = f"{path.name}: {error.strerror}"
    return text if error.errno in NOT_THERE else Unread(text)


def _told(error: CheckpointError) -> str:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    was_read = cause is None or cause.errno in NOT_THERE
    return str(error) if was_read else Unread(error)
