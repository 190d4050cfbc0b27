"""
What earlier attempts of this job had saved, as others remember it.

An empty directory looks the same to the first attempt and to one whose checkpoints were deleted, or
lie on a file system that is not mounted here; only the first may begin with step 0.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.errors import CheckpointPlaceError, UntrustedFileError, UsageError
from slurm_resilience.plain import plain
from slurm_resilience.watch.heartbeat import (
    DIRECTORY_VARIABLE,
    SAVED_VARIABLE,
    beat_path,
    read_beat,
)

MOST_DIGITS = 18


def saved_before(environment: Mapping[str, str], *, rank: int) -> int:
    """
    The newest step that an earlier attempt, or an earlier life of *rank* within this one, knew to
    be saved; -1: none.

    To be asked before this rank writes a heartbeat: its earlier life left its last one there.
    Raises `UsageError` where what the batch script says is no step.
    """
    text = environment.get(SAVED_VARIABLE, "").strip()
    if text and not (text.isdecimal() and text.isascii() and len(text) <= MOST_DIGITS):
        raise UsageError(
            f"{SAVED_VARIABLE} is {plain(repr(text), most=80)}; it is the step that was saved last, "
            "or empty"
        )
    steps = [int(text)] if text else []
    beats = environment.get(DIRECTORY_VARIABLE)
    if beats and environment.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
        with suppress(UntrustedFileError):
            steps.append(read_beat(beat_path(Path(beats), rank)).saved_step)
    return max(steps, default=-1)


def holds_some(directory: Path) -> bool:
    """Look whether there is any checkpoint, and make nothing: an empty mount point stays empty."""
    return directory.is_dir() and bool(found(directory))


def refuse_loss(directory: Path, saved_step: int, *, held: bool) -> None:
    """Raise `CheckpointPlaceError` where *saved_step* was saved and nothing of that is *held*."""
    if saved_step >= 0 and not held:
        raise CheckpointPlaceError(
            f"{directory} holds no checkpoint, but this job had saved step {saved_step}: was it "
            "deleted, is its file system mounted? Put it back; or, to begin anew at step 0, "
            f"call restore(anew=True) or put `export {SAVED_VARIABLE}=` into the batch script"
        )
