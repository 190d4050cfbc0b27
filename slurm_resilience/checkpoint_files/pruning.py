"""Deleting old checkpoints of a directory that no job is writing to, by a person's order."""

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.checkpoint_files.judging import judged, read, sizes
from slurm_resilience.checkpoint_files.keep import (
    delete,
    is_poisoned,
    superfluous,
    taken_out,
    unfinished,
)
from slurm_resilience.checkpoint_files.listing import Found, found, shown
from slurm_resilience.checkpoint_files.owner import LOCK, last_owner, owner, standing_in
from slurm_resilience.errors import CheckpointInUseError, CheckpointPlaceError, LockBusyError
from slurm_resilience.locks import held

MOST_PLANS = 5
"""For a directory that changes before they are carried out."""


class Pruning(NamedTuple):
    """What may be deleted, and what stays for another reason than being among the newest."""

    going: list[Found]
    unsound: dict[Path, str]
    """Why they do not count; they stay."""
    sound: list[Found]
    """What was read, and stays."""


def planned(directory: Path, *, keep: int) -> Pruning:
    """
    All but the newest *keep* that verify, and but for the newest of these without poison.

    Reads the newest ones until *keep* of them have been found sound: what goes, goes because
    those are there. Raises `CheckpointPlaceError` as `judged`.
    """

    def is_enough(sound: Sequence[Found]) -> bool:
        return len(sound) >= keep and not all(map(is_poisoned, sound))

    seen = judged(directory, read, is_enough=is_enough)
    going = set(superfluous(seen.entries, keep=keep, unsound=seen.unsound))
    return Pruning(
        [entry for entry in seen.entries if entry.path in going], seen.unsound, seen.sound
    )


def take_out(directory: Path, *, keep: int, pruning: Pruning) -> tuple[Pruning, list[Path]]:
    """
    Take what was planned out of *directory*; the plan, and what is to be `clear`ed now, what was
    never finished among it.

    No job can begin there meanwhile; it could while the plan was made, which takes long: where one
    has changed something, another is made. Raises as `unowned`.
    """
    for _ in range(MOST_PLANS):
        with unowned(directory):
            if _still_holds(directory, pruning):
                left = unfinished(directory)
                return pruning, [*map(_taken_out, reversed(pruning.going)), *left]
        pruning = planned(directory, keep=keep)
    raise CheckpointInUseError(
        f"{shown(directory)} changes again and again: nothing was changed"
    )


def _still_holds(directory: Path, pruning: Pruning) -> bool:
    now = found(directory)
    return all(one in now for one in pruning.going) and all(
        one in now and not sizes(one) for one in pruning.sound
    )


def _taken_out(entry: Found) -> Path:
    try:
        return taken_out(entry.path)
    except OSError as error:
        raise CheckpointPlaceError(
            f"{shown(entry.path)} cannot be deleted: {error.strerror}"
        ) from error


def clear(paths: Iterable[Path]) -> None:
    """Delete what was taken out, which a job that has begun meanwhile may be doing as well."""
    for path in paths:
        try:
            delete(path)
        except OSError as error:  # noqa: PERF203 - names the one that it is
            raise CheckpointPlaceError(
                f"{shown(path)} cannot be deleted: {error.strerror}"
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
