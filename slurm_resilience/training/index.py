"""A checkpoint's index as torch's planners have it, and the way back."""

from collections.abc import Mapping, Sequence

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import SavePlan, WriteItem

from slurm_resilience.checkpoint_files.index import Index, Piece, Tensor
from slurm_resilience.checkpoint_files.manifest import tensors_name
from slurm_resilience.errors import CheckpointError, CheckpointLoadError
from slurm_resilience.training.layout import layout
from slurm_resilience.training.tree import dtype

__all__ = ["Piece", "indexed", "metadata", "shapes"]


def metadata(index: Index) -> Metadata:
    """*index* for torch's load planner; `CheckpointLoadError` where this torch lacks a dtype of it."""
    try:
        return Metadata(
            {
                name: TensorStorageMetadata(
                    properties=TensorProperties(dtype=dtype(tensor.dtype)),
                    size=torch.Size(tensor.sizes),
                    chunks=[
                        ChunkStorageMetadata(torch.Size(piece.offsets), torch.Size(piece.sizes))
                        for piece in tensor.pieces
                    ],
                )
                for name, tensor in index.tensors.items()
            }
        )
    except ValueError as error:
        raise CheckpointLoadError(
            f"torch {torch.__version__} cannot read it: {error}"
        ) from error


def indexed(metadata: Metadata, plans: Mapping[int, SavePlan]) -> Index:
    """
    The index of what some ranks write, each its plan, of all that torch's save planner has planned.

    It names all tensors, also those of which these ranks write no piece.
    """
    by_name: dict[str, list[Piece]] = {name: [] for name in metadata.state_dict_metadata}
    for rank, plan in plans.items():
        file, pieces = tensors_name(rank), shapes(plan.items)
        places = layout(pieces).places
        for item, (sizes, _), at in zip(plan.items, pieces, places, strict=True):
            offsets = item.tensor_data.chunk.offsets if item.tensor_data else ()
            by_name[item.index.fqn].append(Piece(tuple(offsets), tuple(sizes), file, at))
    return Index({name: _tensor(metadata, name, mine) for name, mine in by_name.items()})


def shapes(items: Sequence[WriteItem]) -> list[tuple[torch.Size, torch.dtype]]:
    """Of the pieces that are planned."""
    return [_shape(item) for item in items]


def _shape(item: WriteItem) -> tuple[torch.Size, torch.dtype]:
    if item.tensor_data is None:
        raise CheckpointError(f"{item.index.fqn} is not a tensor")
    return item.tensor_data.chunk.sizes, item.tensor_data.properties.dtype


def _tensor(metadata: Metadata, name: str, pieces: list[Piece]) -> Tensor:
    known = metadata.state_dict_metadata[name]
    if not isinstance(known, TensorStorageMetadata):
        raise CheckpointError(f"{name} is not a tensor")
    text = str(known.properties.dtype).removeprefix("torch.")
    return Tensor(dtype=text, sizes=tuple(known.size), pieces=tuple(pieces))
