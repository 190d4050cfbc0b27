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
from slurm_resilience.errors import CheckpointError, CheckpointLoadError

Loss = float | torch.Tensor | None

AT_ONCE = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
"""What torch finds the extremes of."""
HAVE_NONE = frozenset({torch.float4_e2m1fn_x2})
SOME = 1 << 24
"""Elements that are converted at a time."""


def poison_of(loss: Loss) -> str:
    """What is wrong with *loss*; empty: nothing. A tensor on a GPU is waited for."""
    if isinstance(loss, torch.Tensor):
        whole = is_finite(loss)
    else:
        whole = loss is None or math.isfinite(loss)
    return "" if whole else "the loss is NaN or infinite"


def poison_in(tensors: Iterable[tuple[str, torch.Tensor]], guarded: Collection[str]) -> str:
    """Which of *guarded*, names of *tensors*, holds a NaN or an infinity; empty: none."""
    for name, tensor in tensors:
        if name in guarded and not is_finite(tensor):
            return f"{name} holds NaN or infinity"
    return ""


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether *tensor* holds neither NaN nor infinity."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if not tensor.is_floating_point() or tensor.dtype in HAVE_NONE:
        return True
    if tensor.dtype in AT_ONCE:
        return _is_finite(tensor)
    flat = tensor.reshape(-1)
    return all(
        _is_finite(flat[at : at + SOME].to(torch.float32)) for at in range(0, len(flat), SOME)
    )


def refuse_overflow(name: str, saved: torch.Tensor, converted: torch.Tensor) -> None:
    """Raise `CheckpointLoadError` where *converted* has become infinite, and *saved* was not."""
    if saved.dtype != converted.dtype and is_finite(saved) and not is_finite(converted):
        raise CheckpointLoadError(
            f"{name} holds numbers that are too large for this run's {converted.dtype}"
        )


def _is_finite(tensor: torch.Tensor) -> bool:
    if not tensor.numel():
        return True
    # One pass at the speed of memory; isfinite().all() takes forty times as long.
    least, most = torch.aminmax(tensor)
    return math.isfinite(least) and math.isfinite(most)


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
