"""
The random number generators of this rank: Python's, numpy's where it is used, torch's, and CUDA's of
all devices that it sees.
"""

import random
import sys
from typing import Any

import torch

from slurm_resilience.errors import CheckpointLoadError

State = dict[str, Any]


def captured() -> State:
    """Where the generators stand."""
    state: State = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if numpy := sys.modules.get("numpy"):
        state["numpy"] = numpy.random.get_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        devices = cuda_devices(torch.cuda.current_device(), torch.cuda.device_count())
        state["cuda"] = torch.stack([torch.cuda.get_rng_state(device) for device in devices])
    return state


def restore(state: State) -> None:
    """Put the generators back; `CheckpointLoadError` where *state* is not one."""
    try:
        random.setstate(state["python"])
        torch.set_rng_state(state["torch"])
        if "numpy" in state:
            import numpy as np  # noqa: PLC0415 - torch does not need it

            np.random.set_state(state["numpy"])  # noqa: NPY002 - the one that training code uses
        if "cuda" in state and torch.cuda.is_available():
            # Not initialized for this: a rank that has not chosen its device is on the first.
            current = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
            saved = by_device(state["cuda"], current, torch.cuda.device_count())
            for device, generator in saved.items():
                torch.cuda.set_rng_state(generator, device)
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointLoadError(
            f"not the state of a random number generator: {error}"
        ) from error


def cuda_devices(current: int, count: int) -> list[int]:
    """
    In the order that their generators are kept in: the *current* one first.

    That is the one a rank trains on, whatever its number was; another attempt may see more or fewer.
    """
    return [current, *(device for device in range(count) if device != current)]


def by_device(saved: torch.Tensor, current: int, count: int) -> dict[int, torch.Tensor]:
    """What to set; earlier checkpoints hold the generator of the current device alone."""
    return dict(zip(cuda_devices(current, count), torch.atleast_2d(saved), strict=False))
