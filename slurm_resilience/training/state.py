"""
What the user hands to `Run(state=…)`: taken apart for a checkpoint.

A module or an optimizer is taken to be the same on all ranks (but for sharded tensors): its tensors
are saved once. Everything else belongs to its rank: a sampler's position, a scheduler, a number, and
what a module adds by `get_extra_state`.
"""

from collections.abc import MutableMapping
from typing import Any, NamedTuple, TypeGuard

import msgspec
import torch
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from slurm_resilience.errors import UsageError
from slurm_resilience.training import rng
from slurm_resilience.training.environment import Environment
from slurm_resilience.training.tree import encoded

State = MutableMapping[str, Any]


UNFIT = (RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError)
"""What torch and users' `state_dict` and `load_state_dict` raise where something is not theirs."""


EXTRA_STATE = "_extra_state"
"""How torch ends the key of what a module's `get_extra_state` returns."""


class Values(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of one rank that is not a tensor; the content of its `.values` file."""

    parts: dict[str, bytes]
    """The user's parts by name, as `tree.encoded`."""
    rng: bytes
    environment: Environment | None = None
    """Of the attempt that wrote it; in rank 0's only."""


class Captured(NamedTuple):
    """A state taken apart: values frozen, tensors still live."""

    values: Values
    tensors: dict[str, torch.Tensor]
    guarded: frozenset[str]
    """Names of tensors that may hold neither NaN nor infinity."""
    buffers: frozenset[str]
    """Names of tensors of modules that a rank may have for itself until the next step."""


def has_names(state: object) -> TypeGuard[State]:
    """Whether *state* can be one: it has names, and what they name can be changed."""
    return (
        isinstance(state, MutableMapping)
        and bool(state)
        and all(isinstance(name, str) for name in state)
    )


def captured(state: State, *, rank: int) -> Captured:
    """
    *state* and the random number generators of this rank.

    Raises `UsageError` where something in it cannot be saved.
    """
    tensors = _Names(rank)
    parts: dict[str, bytes] = {}
    guarded: set[str] = set()
    buffers: set[str] = set()
    for name, part in state.items():
        before = set(tensors.by_name)
        _refuse_foreign_shards(name, part)
        place = name if is_shared(part) else f"{name}@{rank}"
        try:
            parts[name] = encoded(contents(part), place, tensors.keep)
        except UNFIT as error:
            why = " ".join(str(error).split())
            raise UsageError(f"state {name}: its state_dict() fails: {why}") from error
        if isinstance(part, torch.nn.Module):
            guarded |= {f"{name}/{key}" for key, _ in bare(part).named_parameters()}
            buffers |= tensors.by_name.keys() - before - guarded - set(tensors.extra)
        elif isinstance(part, torch.optim.Optimizer):
            guarded |= tensors.by_name.keys() - before
        if isinstance(part, torch.nn.Module | torch.Tensor):  # which are filled in place
            for key in sorted(tensors.by_name.keys() - before):
                _refuse_overlap(key, tensors.by_name[key])
    generators = encoded(rng.captured(), f"@{rank}", tensors.keep)
    return Captured(
        Values(parts, generators), tensors.by_name, frozenset(guarded), frozenset(buffers)
    )


def live_tensors(part: object, name: str) -> dict[str, torch.Tensor]:
    """The tensors of a module by the names they are saved under; they can be filled in place."""
    tensors = _Names()
    if isinstance(part, torch.nn.Module):
        encoded(contents(part), name, tensors.keep)
    # Extra state is an answer, not the module's memory; what was saved may be of another size.
    return {key: one for key, one in tensors.by_name.items() if key not in tensors.extra}


def contents(part: object) -> object:
    """What there is to save of a part."""
    if isinstance(part, torch.nn.Module):
        return bare(part).state_dict()
    return part.state_dict() if isinstance(part, Stateful) else part


def is_shared(part: object) -> bool:
    """Whether all ranks hold the same."""
    return isinstance(part, torch.nn.Module | torch.optim.Optimizer)


def bare(module: torch.nn.Module) -> torch.nn.Module:
    """
    The user's module without the wrappers of data parallelism and `torch.compile`, so that a
    checkpoint does not depend on them.
    """
    inner = module.module if isinstance(module, DistributedDataParallel) else None
    inner = getattr(module, "_orig_mod", inner)
    return bare(inner) if isinstance(inner, torch.nn.Module) else module


def is_sharded(value: object) -> TypeGuard[torch.Tensor]:
    """Whether *value* is a DTensor, whose module has moved between versions of torch."""
    return isinstance(value, torch.Tensor) and hasattr(value, "device_mesh")


def _refuse_overlap(name: str, tensor: torch.Tensor) -> None:
    # As torch sees it: it would not write to one.
    if is_sharded(tensor) or not tensor.numel():
        return
    sides = zip(tensor.shape, tensor.stride(), strict=True)
    if any(size > 1 and stride == 0 for size, stride in sides):
        raise UsageError(
            f"state {name} has elements that share memory (expand), and could not be restored; "
            "give it a memory of its own: .clone()"
        )


def _refuse_foreign_shards(name: str, part: object) -> None:
    # Their shards look like whole tensors that all ranks hold alike: one would stand for all.
    if isinstance(part, torch.nn.Module) and any(
        isinstance(module, FullyShardedDataParallel) for module in part.modules()
    ):
        raise UsageError(
            f"state {name} is in FullyShardedDataParallel; use fully_shard instead"
        )
    # Would be saved well, and could not be put back: see `targets`.
    if isinstance(part, torch.optim.Optimizer) and any(
        is_sharded(value) and value.shape != parameter.shape
        for parameter, values in part.state.items()
        for value in values.values()
    ):
        raise UsageError(
            f"state {name} is an optimizer whose sharded state has other shapes than its "
            "parameters; leave it out and save the model alone"
        )


class _Names:
    def __init__(self, rank: int = 0) -> None:
        self.by_name: dict[str, torch.Tensor] = {}
        self.extra: set[str] = set()
        self._rank = rank

    def keep(self, place: str, tensor: torch.Tensor) -> str:
        name = place
        if any(key.rpartition(".")[2] == EXTRA_STATE for key in place.split("/")):
            name = f"{place}@{self._rank}"
            self.extra.add(name)
        if name in self.by_name:
            raise UsageError(f"state {name} is there twice, once under a number")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
            raise UsageError(f"state {name} is a tensor that cannot be saved: {tensor.layout}")
        self.by_name[name] = tensor
        return name
