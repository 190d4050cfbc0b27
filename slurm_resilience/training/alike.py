"""Whether what one rank writes for all of them is the same on each: by a sample, when a plan is made."""

import logging
import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import torch

from slurm_resilience.errors import CheckpointError
from slurm_resilience.plain import plain
from slurm_resilience.training.state import is_sharded

SAMPLE = 64
"""Elements of each tensor, from all over it."""
DRIFT = 0.01
"""Of what the elements are together: ranks that round otherwise, and not parameters of their own."""

log = logging.getLogger(__name__)


class Sample(NamedTuple):
    """Of a tensor: equal where the ranks hold the same, near where they have drifted apart."""

    kind: str
    """Shape and dtype."""
    crc32: int
    weighed: float
    """Sum of its numbers by weights of both signs."""
    size: float
    """Sum of their sizes; -1 where they are none that are rounded."""


def samples(tensors: Mapping[str, torch.Tensor], names: Collection[str]) -> dict[str, Sample]:
    """What tells the named ones of *tensors* apart; sharded ones are not the same on each rank."""
    taken = {
        name: _sample(tensor)
        for name, tensor in tensors.items()
        if name in names and not is_sharded(tensor)
    }
    by_device: dict[torch.device, list[str]] = {}
    for name, sample in taken.items():
        by_device.setdefault(sample.device, []).append(name)
    found = {}
    for together in by_device.values():  # one copy from a GPU, and not one for each tensor
        data = torch.cat([taken[name] for name in together]).cpu().numpy().tobytes()
        at = 0
        for name in together:
            end = at + taken[name].numel()
            known = f"{tuple(tensors[name].shape)} {tensors[name].dtype}"
            numbers = data[at:end]
            found[name] = Sample(
                known, zlib.crc32(numbers), *_sums(numbers, tensors[name].dtype)
            )
            at = end
    return found


def refuse_differences(by_rank: Sequence[Mapping[str, Sample]], ranks: Collection[int]) -> None:
    """
    Raise `CheckpointError` where a tensor of some *ranks* is not the same on all of them; where they
    have only drifted apart, say so.
    """
    first: dict[str, tuple[int, Sample]] = {}
    drifted = ""
    for rank in sorted(ranks):
        for name, sample in by_rank[rank].items():
            other, known = first.setdefault(name, (rank, sample))
            if sample[:2] == known[:2]:
                continue
            if _is_near(sample, known):
                drifted = drifted or f"{plain(name, most=80)} on ranks {other} and {rank}"
            else:
                raise CheckpointError(
                    f"{plain(name, most=80)} is not the same on ranks {other} and {rank}, and one "
                    "would stand for both: what belongs to a rank goes into the state in an object "
                    "of your own with the module's state_dict and load_state_dict"
                )
    if drifted:
        log.warning("%s have drifted apart: one of them is saved for both", drifted)


def _is_near(one: Sample, other: Sample) -> bool:
    if one.kind != other.kind or one.size < 0:
        return False
    if not math.isfinite(one.size) and not math.isfinite(other.size):
        return True  # poisoned, and marked as such
    return all(
        abs(mine - theirs) <= DRIFT * max(one.size, other.size)
        for mine, theirs in ((one.weighed, other.weighed), (one.size, other.size))
    )


def _sums(data: bytes, kind: torch.dtype) -> tuple[float, float]:
    if not data or not kind.is_floating_point or kind.itemsize == 1:
        return 0.0, -1.0
    numbers = torch.frombuffer(bytearray(data), dtype=kind).to(torch.float64)
    weights = torch.cos(torch.arange(len(numbers), dtype=torch.float64, device="cpu") + 1)
    return float((numbers * weights).sum()), float(numbers.abs().sum())


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().resolve_conj().resolve_neg().reshape(-1)
    some = flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE]
    return some.contiguous().view(torch.uint8)
