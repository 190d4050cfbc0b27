"""Memory for what is read back and is nobody's yet: the state of an optimizer that has done no step."""

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
