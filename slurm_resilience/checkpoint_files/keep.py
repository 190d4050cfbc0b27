"""Which checkpoints may go, and how they go."""

import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from slurm_resilience.checkpoint_files.listing import Found, step_of
from slurm_resilience.files import sync_directory

SAVING = ".saving-"
REMOVING = ".removing-"
PROBE = ".probe-"
"""A rank's file that another looks for, to see whether they share the directory."""
QUARANTINE = "quarantine"


def superfluous(
    entries: Sequence[Found], *, keep: int, unsound: Collection[Path]
) -> list[Path]:
    """
    All but the newest *keep* checkpoints, the oldest first; and but for the newest one without
    poison: were all that is kept poisoned, there would be no way back.

    Unsound ones neither count nor go: somebody may want to look at them.
    """
    whole = [entry for entry in entries if entry.manifest and entry.path not in unsound]
    oldest_first = sorted(whole, key=step_of)
    pinned = next((entry for entry in reversed(oldest_first) if not is_poisoned(entry)), None)
    going = oldest_first[: max(0, len(whole) - keep)]
    return [entry.path for entry in going if entry is not pinned]


def is_poisoned(entry: Found) -> bool:
    """Whether a NaN or an infinity was seen in the state when it was saved."""
    return entry.manifest is not None and bool(entry.manifest.poison)


def remove(checkpoint: Path) -> None:
    """Delete a checkpoint; cut off at any point, it is either whole or no checkpoint any more."""
    going = checkpoint.with_name(f"{REMOVING}{checkpoint.name}-{os.getpid()}")
    checkpoint.rename(going)
    sync_directory(checkpoint.parent)
    _delete(going)


def remove_unfinished(directory: Path) -> list[Path]:
    """
    Delete what saves, removals, copies and probes that were cut off have left; what was deleted.

    To be called by the directory's owner alone.
    """
    places = [directory, *directory.glob(QUARANTINE)]
    left = [
        path
        for place in places
        for path in place.iterdir()
        if path.name.startswith((SAVING, REMOVING, PROBE))
    ]
    for path in left:
        _delete(path)
    return left


def _delete(path: Path) -> None:
    """A directory with all that is in it; of a link the link alone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        # A rank that shares the directory may still be about to delete its own probe.
        path.unlink(missing_ok=True)
