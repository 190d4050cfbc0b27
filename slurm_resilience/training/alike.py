"""Whether what one rank writes for all of them is the same on each: by a sample, when a plan is made."""

import zlib
from collections.abc import Collection, Mapping, Sequence

import torch

from slurm_resilience.errors import CheckpointError
from slurm_resilience.plain import plain
from slurm_resilience.training.state import is_sharded

SAMPLE = 64
"""Elements of each tensor, from all over it."""


def samples(tensors: Mapping[str, torch.Tensor], names: Collection[str]) -> dict[str, int]:
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
            known = f"{tuple(tensors[name].shape)} {tensors[name].dtype}".encode()
            found[name] = zlib.crc32(data[at:end], zlib.crc32(known))
            at = end
    return found


def refuse_differences(by_rank: Sequence[Mapping[str, int]], ranks: Collection[int]) -> None:
    """Raise `CheckpointError` where a tensor of some *ranks* is not the same on all of them."""
    first: dict[str, tuple[int, int]] = {}
    for rank in sorted(ranks):
        for name, sample in by_rank[rank].items():
            other, known = first.setdefault(name, (rank, sample))
            if sample != known:
                raise CheckpointError(
                    f"{plain(name, most=80)} is not the same on ranks {other} and {rank}, and one "
                    "would stand for both: what belongs to a rank goes into the state in an object "
                    "of your own with the module's state_dict and load_state_dict"
                )


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().resolve_conj().resolve_neg().reshape(-1)
    some = flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE]
    return some.contiguous().view(torch.uint8)
