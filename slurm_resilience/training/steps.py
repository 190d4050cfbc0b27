"""What a training says of each step: its number and its loss. What is neither is refused at once."""

from contextlib import suppress
from typing import SupportsFloat, SupportsIndex

import torch

from slurm_resilience.errors import UsageError
from slurm_resilience.plain import plain
from slurm_resilience.training.arguments import whole_number
from slurm_resilience.training.sound import Loss


def whole(step: SupportsIndex) -> int:
    """
    *step* as a number of Python's own.

    Raises `UsageError` where it is none.
    """
    number = whole_number(step)
    if number is None:
        raise UsageError(
            f"Run: step({plain(repr(step), most=80)}): a step is a whole number, 0 or more"
        )
    return number


def known(loss: Loss) -> Loss:
    """
    *loss* without the graph that it came out of.

    Raises `UsageError` where it is neither a number nor a tensor of numbers: the save that looks at
    it may be hours away.
    """
    if loss is None or isinstance(loss, float):
        return loss
    if isinstance(loss, torch.Tensor):
        odd = loss.is_meta or loss.is_quantized or loss.is_nested
        if loss.layout is torch.strided and not odd:
            return loss.detach()
    elif isinstance(loss, SupportsFloat | SupportsIndex):  # float() takes texts as well
        with suppress(TypeError, ValueError, OverflowError):
            return float(loss)
    raise UsageError(
        f"Run: step(loss={plain(repr(loss), most=80)}): a loss is a number or a tensor of numbers"
    )
