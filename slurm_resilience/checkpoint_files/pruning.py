"""Deleting old checkpoints of a directory that no job is writing to, by a person's order."""

import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.checkpoint_files.keep import (
    is_poisoned,
    remove,
    remove_unfinished,
    superfluous,
)
from slurm_resilience.checkpoint_files.listing import Found, found, problems, shown
from slurm_resilience.checkpoint_files.owner import LOCK, last_owner, owner, standing_in
from slurm_resilience.errors import CheckpointInUseError, CheckpointPlaceError, LockBusyError
from slurm_resilience.locks import held


class Pruning(NamedTuple):
    """What may be deleted, and what stays for another reason than being among the newest."""

    going: list[Found]
    unsound: dict[Path, str]
    """Why they do not count; they stay."""
    sound: list[Found]
    """What was read, and stays."""


def planned(directory: Path, *, keep: int, known: Pruning | None = None) -> Pruning:
    """
    All but the newest *keep* that verify, and but for the newest of these without poison.

    Reads the newest ones until *keep* of them have been found sound: what goes, goes because
    those are there. What was *known* a moment ago to be sound is not read again. Raises
    `CheckpointPlaceError` as `found`.
    """
    entries = found(directory)
    sound: list[Found] = []
    unsound: dict[Path, str] = {}
    has_clean = False
    for entry in entries:
        if len(sound) >= keep and has_clean:
            break
        was_read = known is not None and entry in known.sound
        if problem := next(problems(entry, shares=0 if was_read else 1), ""):
            unsound[entry.path] = problem
            continue
        sound.append(entry)
        has_clean = has_clean or not is_poisoned(entry)
    going = set(superfluous(entries, keep=keep, unsound=unsound))
    return Pruning([entry for entry in entries if entry.path in going], unsound, sound)


def prune(pruning: Pruning) -> Iterator[Path]:
    """Delete what was planned, the oldest first; each, once it is gone."""
    for entry in reversed(pruning.going):
        try:
            remove(entry.path)
        except OSError as error:
            raise CheckpointPlaceError(
                f"{shown(entry.path)} cannot be deleted: {error.strerror}"
            ) from error
        yield entry.path


def tidied(directory: Path) -> list[Path]:
    """Delete what was never finished; what was deleted."""
    try:
        return remove_unfinished(directory)
    except OSError as error:
        raise CheckpointPlaceError(
            f"{shown(directory)}: what was never finished cannot be deleted: {error.strerror}"
        ) from error


@contextmanager
def unowned(directory: Path) -> Iterator[None]:
    """
    Keep jobs out of *directory* meanwhile.

    Raises `CheckpointInUseError` where one is writing there, and `CheckpointPlaceError` where that
    cannot be known.
    """
    lock = ExitStack()
    try:
        lock.enter_context(held(directory / LOCK))
        me = owner({}, node=platform.node(), pid=os.getpid())
        lock.enter_context(standing_in(directory, me))
    except LockBusyError as error:
        raise CheckpointInUseError(
            f"{shown(directory)} is in use by {last_owner(directory) or 'a process'}; "
            "it deletes old ones by itself: nothing was changed"
        ) from error
    except (OSError, NotImplementedError) as error:
        lock.close()
        why = error.strerror if isinstance(error, OSError) else "no locks on this file system"
        raise CheckpointPlaceError(
            f"{shown(directory)}: cannot tell whether a job writes there ({why}): "
            "nothing was changed"
        ) from error
    with lock:
        yield
