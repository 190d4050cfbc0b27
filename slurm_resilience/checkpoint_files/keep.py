"""Which checkpoints may go, and how they go."""

import logging
import re
import secrets
import shutil
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from slurm_resilience.checkpoint_files.listing import Found, step_of
from slurm_resilience.files import sync_directory

log = logging.getLogger(__name__)

SAVING = ".saving-"
REMOVING = ".removing-"
PROBE = ".probe-"
"""A rank's file that another looks for, to see whether they share the directory."""
LEFT = re.compile(r"\.(saving|removing)-([a-z]+-)*step-\d.*|\.probe-[0-9a-f]+-\d+")
"""What carries such a name was made here; what a user called `.saving-for-later` was not."""
QUARANTINE = "quarantine"
FRESH = re.compile(r"\.(owner|step-.+)\.json\.\d+\.new")
"""What `replace` leaves of an owner's or a reason's file where it is killed."""
WRITING_S = 3600.0
"""So long it may be under way, on a slow file system with a clock of its own."""


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
    delete(taken_out(checkpoint))


def taken_out(checkpoint: Path) -> Path:
    """Rename a checkpoint so that it is none any more, and can be deleted at leisure; where it lies."""
    name = checkpoint.name.removeprefix(SAVING)
    going = checkpoint.with_name(f"{REMOVING}{name}-{secrets.token_hex(8)}")
    checkpoint.rename(going)
    sync_directory(checkpoint.parent)
    return going


def remove_unfinished(directory: Path) -> list[Path]:
    """
    Delete what `unfinished` finds; what was found. What cannot go is said: it is in nobody's way.

    To be called by the directory's owner alone.
    """
    left = unfinished(directory)
    for path in left:
        # Renamed first: the attempt before may still be about to give it the name of a checkpoint.
        try:
            delete(taken_out(path) if path.name.startswith(SAVING) else path)
        except FileNotFoundError:  # noqa: PERF203 - each by itself
            continue
        except OSError as error:
            log.warning("%s cannot be removed: %s", path, error.strerror)
    return left


def unfinished(directory: Path) -> list[Path]:
    """
    What saves, removals, copies and probes that were cut off have left, where no job is at work: no
    later one gives anything the same name.
    """
    places = [directory, *directory.glob(QUARANTINE)]
    return [
        path
        for place in places
        for path in place.iterdir()
        if LEFT.fullmatch(path.name) or _is_left(path)
    ]


def _is_left(path: Path) -> bool:
    """Who takes the directory over from a lost node does not wait for a lock to sign there."""
    if not FRESH.fullmatch(path.name):
        return False
    try:
        return path.lstat().st_mtime < time.time() - WRITING_S
    except FileNotFoundError:
        return False


def delete(path: Path) -> None:
    """
    A directory with all that is in it; of a link the link alone.

    Others may be deleting the same: a new owner of the directory, a rank its own probe.
    """
    while path.is_dir() and not path.is_symlink():
        with suppress(FileNotFoundError):  # another was first with a file: go on with the rest
            shutil.rmtree(path)
    path.unlink(missing_ok=True)
