"""What a path is, where a checkpoint was looked for and none was found."""

import os
from contextlib import suppress
from pathlib import Path

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.listing import NAMED, PREFIX, shown

CHECKPOINTS = f"{PREFIX}*/{manifests.NAME}"


def instead(path: Path) -> str:
    """In a few words, with what was meant perhaps; empty: it has a manifest, or holds nothing."""
    if not os.path.isdir(path):  # noqa: PTH112 - takes any name, and raises nothing
        return "there is no such directory"
    with suppress(OSError):
        if (path / manifests.NAME).exists():
            return ""
        if checkpoint := next(path.glob(CHECKPOINTS), None):
            return f"it is a directory of checkpoints; name one, {checkpoint.parent.name} for example"
        if _is_named(path) or (path / manifests.INDEX).exists():
            return f"{manifests.NAME} is missing, so it is no whole checkpoint"
        if checkpoint := next(path.glob(f"*/{CHECKPOINTS}"), None):
            return f"there are some in {shown(checkpoint.parent.parent)}"
    return ""


def _is_named(path: Path) -> bool:
    """Whether *path* has the name of a checkpoint."""
    return bool(NAMED.fullmatch(Path(os.path.abspath(path)).name))  # noqa: PTH100 - links stay
