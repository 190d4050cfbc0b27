"""
What saved tensors are read into: this run's own, of their kind; and memory for what is nobody's yet,
the state of an optimizer that has done no step.
"""

from collections.abc import Callable

import torch

from slurm_resilience.training.reader import Reader
from slurm_resilience.training.state import is_sharded
from slurm_resilience.training.tree import dtype


def made_for(part: object, place: str, reader: Reader) -> Callable[[str], torch.Tensor]:
    """
    Makes what the tensors of *part*, saved under *place*, are read into: whole ones in host memory;
    where a parameter is sharded (a DTensor), what an optimizer keeps for it is sharded alike.
    """
    if not isinstance(part, torch.optim.Optimizer):
        return reader.empty
    parameters = [parameter for group in part.param_groups for parameter in group["params"]]

    def target(name: str) -> torch.Tensor:
        number = name.removeprefix(f"{place}/state/").partition("/")[0]
        if not number.isdecimal() or int(number) >= len(parameters):
            return reader.empty(name)
        parameter, known = parameters[int(number)], reader.tensor(name)
        if not is_sharded(parameter) or tuple(parameter.shape) != known.sizes:
            return reader.empty(name)
        return torch.empty_like(parameter.detach(), dtype=dtype(known.dtype))

    return target


def conversion(name: str, saved: torch.dtype, wanted: torch.dtype) -> str:
    """
    How the tensor *name* is converted for this run; empty: it is not.

    Raises `ValueError` where that is no rounding, but loses what was saved: fractions, large numbers.
    """
    if saved == wanted:
        return ""
    kinds = [(one.is_floating_point, one.is_complex) for one in (saved, wanted)]
    is_whole = not any(kinds[0])
    if kinds[0] != kinds[1] or (is_whole and torch.promote_types(saved, wanted) != wanted):
        raise ValueError(f"{name} was saved as {saved}, and is {wanted} in this run")
    return f"saved as {saved}, and converted to {wanted}"
