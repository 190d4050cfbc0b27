"""The random number generators of this rank: Python's, numpy's where it is used, torch's, CUDA's."""

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
        state["cuda"] = torch.cuda.get_rng_state()
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
            torch.cuda.set_rng_state(state["cuda"])
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointLoadError(
            f"not the state of a random number generator: {error}"
        ) from error
