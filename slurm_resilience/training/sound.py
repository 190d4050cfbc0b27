"""
NaN and infinity in a state that is saved.

Looked for in the loss, in the parameters of modules and in the state of optimizers, in the copy that
is about to be written and so beside the training. Not in buffers, nor in what else a state holds: a
mask, or the best loss so far, may well be infinite.
"""

import math
from collections.abc import Collection, Iterable
from pathlib import Path

import torch

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.errors import CheckpointError

Loss = float | torch.Tensor | None

LOOKED_AT = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def poison_of(loss: Loss) -> str:
    """What is wrong with *loss*; empty: nothing. A tensor on a GPU is waited for."""
    if isinstance(loss, torch.Tensor):
        whole = bool(torch.isfinite(loss).all())
    else:
        whole = loss is None or math.isfinite(loss)
    return "" if whole else "the loss is NaN or infinite"


def poison_in(tensors: Iterable[tuple[str, torch.Tensor]], guarded: Collection[str]) -> str:
    """Which of *guarded*, names of *tensors*, holds a NaN or an infinity; empty: none."""
    for name, tensor in tensors:
        if name in guarded and tensor.dtype in LOOKED_AT and tensor.numel():
            # One pass at the speed of memory; isfinite().all() takes forty times as long.
            least, most = torch.aminmax(tensor)
            if not math.isfinite(least) or not math.isfinite(most):
                return f"{name} holds NaN or infinity"
    return ""


def way_back(directory: Path, unsound: Collection[Path]) -> str:
    """What to do about a checkpoint with poison."""
    try:
        entries = found(directory)
    except CheckpointError:
        entries = []
    sound = [
        entry
        for entry in entries
        if entry.manifest and not entry.manifest.poison and entry.path not in unsound
    ]
    if not sound:
        return "no checkpoint without is there to go back to: look for the cause now"
    return 'the last checkpoint without is kept, restore(prefer="sound") goes back to it'
