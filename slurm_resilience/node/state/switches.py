"""
Checks switched off on one node, at once and without a change of the configuration.

A file is all it takes: `disabled` in `paths.state` switches every hook off, `off/<check>` one check.
Files that somebody other than root (or whoever asks) made there count for nothing.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_resilience.errors import UsageError
from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.hooks import DISABLED

EVERYTHING = "all"
FOLDER = "off"


def files_off(state: str) -> tuple[str, ...]:
    """The names of the files that switch something off, known to us or not."""
    folder = Path(state) / FOLDER
    try:
        if not _is_trusted(folder.lstat(), stat.S_ISDIR):
            return ()
        return tuple(sorted(_trusted_names(folder)))
    except OSError:
        return ()


def switched_off(state: str) -> frozenset[str]:
    """The checks that are switched off."""
    return frozenset(files_off(state)) & CHECKS.keys()


def is_all_off(state: str) -> bool:
    """Whether no hook does anything."""
    return os.path.lexists(f"{state}/{DISABLED}")


def switch(state: str, what: str, *, on: bool) -> str:
    """
    Switch a check, or all hooks, off or on again; the file that says so.

    Raises `UsageError` for what there is not, and where it cannot be written.
    """
    if what != EVERYTHING and what not in CHECKS:
        raise UsageError(f"no check {what!r}; there are {EVERYTHING}, {', '.join(CHECKS)}")
    path = Path(state) / DISABLED if what == EVERYTHING else Path(state) / FOLDER / what
    try:
        if on:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.touch(mode=0o644)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; only root can switch checks") from error
    return str(path)


def _trusted_names(folder: Path) -> Iterator[str]:
    for entry in folder.iterdir():
        if _is_trusted(entry.lstat(), stat.S_ISREG):
            yield entry.name


def _is_trusted(found: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    own = found.st_uid in {0, os.geteuid()}
    return own and is_kind(found.st_mode) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
