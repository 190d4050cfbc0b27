"""
Which piece of which tensor lies where: `index.json`.

It says what `torch.distributed.checkpoint` keeps in a pickled `.metadata`; here it is JSON, checked
against the files before a byte is read or allocated.
"""

import math
from collections.abc import Iterable, Mapping

import msgspec
import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)

from slurm_resilience.checkpoint_files.manifest import Count, File
from slurm_resilience.errors import CheckpointLoadError
from slurm_resilience.training.tree import dtype


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A box of one tensor, as contiguous bytes in a file."""

    offsets: tuple[Count, ...]
    """Where the box begins in the tensor."""
    sizes: tuple[Count, ...]
    file: str
    at: Count
    """First byte in the file."""


class Tensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor: its pieces cover it exactly."""

    dtype: str
    sizes: tuple[Count, ...]
    pieces: tuple[Piece, ...]

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return dtype(self.dtype).itemsize


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All tensors of a checkpoint by name."""

    tensors: dict[str, Tensor]

    def metadata(self) -> Metadata:
        """The same for torch's load planner."""
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
                for name, tensor in self.tensors.items()
            }
        )


def indexed(metadata: Metadata, pieces: Iterable[tuple[str, Piece]]) -> Index:
    """
    The index of what torch's save planner has planned and the ranks have written.

    It names all tensors, also those of which no piece is among *pieces*.
    """
    by_name: dict[str, list[Piece]] = {name: [] for name in metadata.state_dict_metadata}
    for name, piece in pieces:
        by_name[name].append(piece)
    return Index({name: _tensor(metadata, name, mine) for name, mine in by_name.items()})


def parsed(data: bytes, files: Mapping[str, File], *, partial: bool = False) -> Index:
    """
    The index in *data*; *files* are those of the manifest.

    Raises `CheckpointLoadError` where a piece lies outside its file or its tensor, or where the
    pieces of a tensor are more or (but for *partial*) less than the tensor: a wrong size never
    becomes an allocation.
    """
    try:
        index = msgspec.json.decode(data, type=Index)
        for name, tensor in index.tensors.items():
            _check(name, tensor, files, partial=partial)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise CheckpointLoadError(f"index.json: {error}") from error
    return index


def _tensor(metadata: Metadata, name: str, pieces: list[Piece]) -> Tensor:
    known = metadata.state_dict_metadata[name]
    if not isinstance(known, TensorStorageMetadata):
        raise CheckpointLoadError(f"{name} is not a tensor")
    text = str(known.properties.dtype).removeprefix("torch.")
    return Tensor(dtype=text, sizes=tuple(known.size), pieces=tuple(pieces))


def _check(name: str, tensor: Tensor, files: Mapping[str, File], *, partial: bool) -> None:
    covered = 0
    for piece in tensor.pieces:
        inside = len(piece.offsets) == len(piece.sizes) == len(tensor.sizes) and all(
            offset + size <= whole
            for offset, size, whole in zip(
                piece.offsets, piece.sizes, tensor.sizes, strict=True
            )
        )
        size_bytes = math.prod(piece.sizes) * tensor.item_bytes
        if (
            not inside
            or piece.file not in files
            or piece.at + size_bytes > files[piece.file].size_bytes
        ):
            raise ValueError(f"a piece of {name[:80]!r} lies outside its tensor or file")
        covered += math.prod(piece.sizes)
    whole = math.prod(tensor.sizes)
    if covered > whole or (covered < whole and not partial):
        raise ValueError(f"the pieces of {name[:80]!r} are not the whole tensor")
