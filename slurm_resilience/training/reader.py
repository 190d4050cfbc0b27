"""Reading tensors and values of one checkpoint, whoever wrote which part of it."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec
import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import ReadItem

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.errors import CheckpointLoadError, UntrustedFileError
from slurm_resilience.files import read_bounded
from slurm_resilience.training.index import Piece, Tensor, parsed
from slurm_resilience.training.state import Values
from slurm_resilience.training.tree import dtype


class Reader:
    """One checkpoint, open for reading. All errors are `CheckpointLoadError` and name the file."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._index = parsed(self._content(manifests.INDEX), manifest.files)
        self._metadata = self._index.metadata()
        self._pieces = {
            (name, piece.offsets): piece
            for name, tensor in self._index.tensors.items()
            for piece in tensor.pieces
        }

    def values(self, rank: int) -> Values:
        """Everything of *rank* that is not a tensor."""
        name = manifests.values_name(rank)
        try:
            return msgspec.msgpack.decode(self._content(name), type=Values)
        except msgspec.DecodeError as error:
            raise CheckpointLoadError(f"{self.path / name}: {error}") from error

    def tensor(self, name: str) -> Tensor:
        """What is known of a tensor."""
        try:
            return self._index.tensors[name]
        except KeyError as error:
            raise CheckpointLoadError(f"{self.path} holds no tensor {name[:80]!r}") from error

    def room(self, name: str) -> torch.Tensor:
        """Host memory for a tensor; its content is to be `fill`ed in."""
        known = self.tensor(name)
        return torch.empty(known.sizes, dtype=dtype(known.dtype))

    def fill(self, targets: Mapping[str, torch.Tensor]) -> None:
        """Read the tensors named by *targets* into them; sharded ones take their own shard."""
        planner = DefaultLoadPlanner(flatten_state_dict=False)
        wanted = {name: self._metadata.state_dict_metadata[name] for name in targets}
        planner.set_up_planner(dict(targets), Metadata(wanted), is_coordinator=False)
        by_file: dict[str, list[tuple[int, Piece, Tensor, ReadItem]]] = {}
        for item in planner.create_local_plan().items:
            name, offsets = item.storage_index.fqn, item.storage_index.offset
            piece = self._pieces[name, tuple(offsets or ())]
            by_file.setdefault(piece.file, []).append(
                (piece.at, piece, self.tensor(name), item)
            )
        for name, reads in by_file.items():
            with self._opened(name) as file:
                for _, piece, tensor, item in sorted(reads, key=lambda read: read[0]):
                    target = planner.resolve_tensor(item).detach()
                    source = _read(file, piece, tensor)
                    target.copy_(_box(source, item.storage_offsets, item.lengths))

    def _content(self, name: str) -> bytes:
        try:
            return read_bounded(
                self.path / name, most_bytes=self.manifest.files[name].size_bytes
            )
        except (OSError, UntrustedFileError) as error:
            raise CheckpointLoadError(f"{self.path / name}: {error}") from error

    def _opened(self, name: str) -> BinaryIO:
        try:
            descriptor = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise CheckpointLoadError(f"{self.path / name}: {error.strerror}") from error
        return os.fdopen(descriptor, "rb", buffering=0)


def _read(file: BinaryIO, piece: Piece, tensor: Tensor) -> torch.Tensor:
    size_bytes = math.prod(piece.sizes) * tensor.item_bytes
    if size_bytes == 0:
        return torch.empty(piece.sizes, dtype=dtype(tensor.dtype))
    data = bytearray(size_bytes)
    rest = memoryview(data)
    file.seek(piece.at)
    while rest:
        count = file.readinto(rest)  # type: ignore[attr-defined]
        if not count:
            raise CheckpointLoadError(f"{file.name}: ends too early")
        rest = rest[count:]
    return torch.frombuffer(data, dtype=dtype(tensor.dtype)).view(piece.sizes)


def _box(tensor: torch.Tensor, offsets: torch.Size, lengths: torch.Size) -> torch.Tensor:
    for dimension, (offset, length) in enumerate(zip(offsets, lengths, strict=True)):
        tensor = tensor.narrow(dimension, offset, length)
    return tensor
