"""Judging the checkpoints of a directory while a training may save and delete there."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.checkpoint_files.listing import Found, found, problems, shown
from slurm_resilience.errors import CheckpointPlaceError

MOST_LOOKS = 10
"""At a directory whose checkpoints go while they are read."""

Judge = Callable[[Found], str]
"""What is wrong with a checkpoint; empty: nothing."""


class Judged(NamedTuple):
    """What a directory holds, and what is known of it."""

    entries: list[Found]
    """The newest first; also those that were not judged."""
    problems: dict[Path, str]
    """Of those that were judged; empty: it is sound."""

    @property
    def sound(self) -> list[Found]:
        """Those that were judged and are sound."""
        return [one for one in self.entries if self.problems.get(one.path) == ""]

    @property
    def unsound(self) -> dict[Path, str]:
        """What is wrong with the others that were judged."""
        return {path: problem for path, problem in self.problems.items() if problem}


def read(entry: Found) -> str:
    """The first problem of a checkpoint, after reading as much of it as that takes."""
    return next(problems(entry), "")


def sizes(entry: Found) -> str:
    """The first problem that shows without reading."""
    return next(problems(entry, shares=0), "")


def judged(
    directory: Path,
    judge: Judge,
    *,
    is_enough: Callable[[Sequence[Found]], bool] = lambda _: False,
) -> Judged:
    """
    Judge the checkpoints in *directory*, or the one that it is, from the newest on until *is_enough*
    of the sound ones.

    What went or was replaced meanwhile says nothing: then the directory is looked at anew. Raises
    `CheckpointPlaceError` as `found`, and where all go sooner than they can be read.
    """
    entries, known = found(directory), dict[Path, str]()
    for _ in range(MOST_LOOKS):
        known = _judged_once(entries, known, judge, is_enough)
        if not any(known.values()):
            return Judged(entries, known)
        now = found(directory)
        lasting = {one.path for one in entries if one in now}
        if lasting.issuperset(path for path in known if known[path]):
            return Judged(entries, known)
        known = {path: problem for path, problem in known.items() if path in lasting}
        entries = now
    if not known:
        raise CheckpointPlaceError(
            f"{shown(directory)}: its checkpoints are replaced sooner than they can be read"
        )
    return Judged([one for one in entries if one.path in known], known)


def _judged_once(
    entries: Sequence[Found],
    known: dict[Path, str],
    judge: Judge,
    is_enough: Callable[[Sequence[Found]], bool],
) -> dict[Path, str]:
    judgements: dict[Path, str] = {}
    sound: list[Found] = []
    for entry in entries:
        if is_enough(sound):
            break
        problem = known[entry.path] if entry.path in known else judge(entry)
        judgements[entry.path] = problem
        if not problem:
            sound.append(entry)
    return judgements
