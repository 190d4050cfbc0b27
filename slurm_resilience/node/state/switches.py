"""
Checks switched off on one node, at once and without a change of the configuration.

A file is all it takes: `disabled` in `paths.state` switches every hook off, `off/<check>` one check.
Files that somebody other than root (or whoever asks) made there count for nothing.
"""

import stat
from pathlib import Path

from slurm_resilience.errors import UsageError
from slurm_resilience.node.checks import CHECKS, no_check
from slurm_resilience.node.hooks import DISABLED
from slurm_resilience.node.state import kept

EVERYTHING = "all"
FOLDER = "off"


def files_off(state: str) -> tuple[str, ...]:
    """The names of the files that switch something off, known to us or not."""
    folder = Path(state) / FOLDER
    try:
        found = folder.lstat()
        if not (kept.is_own(found) and stat.S_ISDIR(found.st_mode)):
            return ()
        return tuple(sorted(one.name for one in folder.iterdir() if kept.is_trusted(str(one))))
    except OSError:
        return ()


def is_all_off(state: str) -> bool:
    """Whether no hook does anything."""
    return kept.is_trusted(f"{state}/{DISABLED}") is True


def switch(state: str, what: str, *, on: bool) -> str:
    """
    Switch a check, or all hooks, off or on again; the file that says so.

    Raises `UsageError` for what there is not, and where it cannot be written.
    """
    if what != EVERYTHING and what not in CHECKS:
        raise UsageError(f"{no_check(what)}; {EVERYTHING}: every hook")
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
