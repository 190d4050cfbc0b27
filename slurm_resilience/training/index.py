"""A checkpoint's index as torch's planners have it, and the way back."""

from collections.abc import Iterable

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)

from slurm_resilience.checkpoint_files.index import Index, Piece, Tensor
from slurm_resilience.errors import CheckpointError, CheckpointLoadError
from slurm_resilience.training.tree import dtype

__all__ = ["Piece", "indexed", "metadata"]


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


def indexed(metadata: Metadata, pieces: Iterable[tuple[str, Piece]]) -> Index:
    """
    The index of what torch's save planner has planned and the ranks have written.

    It names all tensors, also those of which no piece is among *pieces*.
    """
    by_name: dict[str, list[Piece]] = {name: [] for name in metadata.state_dict_metadata}
    for name, piece in pieces:
        by_name[name].append(piece)
    return Index({name: _tensor(metadata, name, mine) for name, mine in by_name.items()})


def _tensor(metadata: Metadata, name: str, pieces: list[Piece]) -> Tensor:
    known = metadata.state_dict_metadata[name]
    if not isinstance(known, TensorStorageMetadata):
        raise CheckpointError(f"{name} is not a tensor")
    text = str(known.properties.dtype).removeprefix("torch.")
    return Tensor(dtype=text, sizes=tuple(known.size), pieces=tuple(pieces))
