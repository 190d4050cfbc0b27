"""Reading tensors and values of one checkpoint, whoever wrote which part of it."""

import ctypes
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import ReadItem
from torch.distributed.tensor import DTensor

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.blocks import BLOCK_BYTES, in_threads, read_into
from slurm_resilience.checkpoint_files.index import Piece, Tensor, parsed
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.errors import CheckpointLoadError, UntrustedFileError
from slurm_resilience.files import read_bounded
from slurm_resilience.training.index import metadata
from slurm_resilience.training.sound import refuse_overflow
from slurm_resilience.training.state import Values
from slurm_resilience.training.tree import dtype


class Reader:
    """One checkpoint, open for reading. All errors are `CheckpointLoadError` and name the file."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        data, is_part = self._content(manifests.INDEX), manifest.part is not None
        try:
            self._index = parsed(data, manifest.files, partial=is_part)
        except CheckpointLoadError as error:
            raise CheckpointLoadError(f"{path / manifests.INDEX}: {error}") from error
        self._metadata = metadata(self._index)
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

    def empty(self, name: str) -> torch.Tensor:
        """Host memory for a tensor; its content is to be `fill`ed in."""
        known = self.tensor(name)
        return torch.empty(known.sizes, dtype=dtype(known.dtype), device="cpu")

    def fill(self, targets: Mapping[str, torch.Tensor]) -> None:
        """
        Read the tensors named by *targets* into them; sharded ones take their own shard.

        Raises `CheckpointLoadError` where another node's part holds some of that.
        """
        planner = DefaultLoadPlanner(flatten_state_dict=False)
        wanted = {name: self._metadata.state_dict_metadata[name] for name in targets}
        planner.set_up_planner(dict(targets), Metadata(wanted), is_coordinator=False)
        with ExitStack() as files:
            opened: dict[str, int] = {}
            tasks: list[Callable[[], None]] = []
            items = planner.create_local_plan().items
            self._check_is_here(targets, items)
            for item in items:
                name, offsets = item.storage_index.fqn, item.storage_index.offset
                piece = self._pieces[name, tuple(offsets or ())]
                if piece.file not in opened:
                    opened[piece.file] = self._opened(piece.file)
                    files.callback(os.close, opened[piece.file])
                source = _Source(self.path / piece.file, opened[piece.file], piece.at)
                target = planner.resolve_tensor(item).detach()
                tasks += _reads(source, piece, self.tensor(name), item, target)
            in_threads(lambda read: read(), tasks)

    def _check_is_here(
        self, targets: Mapping[str, torch.Tensor], items: Sequence[ReadItem]
    ) -> None:
        missing = {
            name: (one.to_local() if isinstance(one, DTensor) else one).numel()
            for name, one in targets.items()
        }
        for item in items:
            missing[item.storage_index.fqn] -= math.prod(item.lengths)
        if lacking := [name for name, count in missing.items() if count > 0]:
            raise CheckpointLoadError(
                f"{self.path}: some of {lacking[0]!r} lies in the parts of other nodes"
            )

    def _content(self, name: str) -> bytes:
        try:
            return read_bounded(
                self.path / name, most_bytes=self.manifest.files[name].size_bytes
            )
        except (OSError, UntrustedFileError) as error:
            raise CheckpointLoadError(f"{self.path / name}: {error}") from error

    def _opened(self, name: str) -> int:
        try:
            return os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise CheckpointLoadError(f"{self.path / name}: {error.strerror}") from error


class _Source(NamedTuple):
    """Bytes of a file."""

    path: Path
    descriptor: int
    at: int

    def fill(self, target: memoryview) -> None:
        """Fill *target*."""
        try:
            read_into(self.descriptor, target, self.at)
        except (OSError, EOFError) as error:
            raise CheckpointLoadError(f"{self.path}: {error}") from error


def _reads(
    source: _Source, piece: Piece, tensor: Tensor, item: ReadItem, target: torch.Tensor
) -> Iterator[Callable[[], None]]:
    """What has to be done, in any order, to fill *target* from *piece*."""
    is_whole = tuple(item.lengths) == piece.sizes
    if is_whole and (memory := _memory(target, tensor)) is not None:
        for start in range(0, len(memory), BLOCK_BYTES):
            block = source._replace(at=source.at + start)
            yield partial(block.fill, memory[start : start + BLOCK_BYTES])
    else:
        yield partial(_copy, source, piece, tensor, item, target)


def _memory(target: torch.Tensor, tensor: Tensor) -> memoryview | None:
    """The bytes of *target*, where the file's can go straight into them."""
    is_alike = target.dtype == dtype(tensor.dtype) and target.is_contiguous()
    if not (is_alike and target.device.type == "cpu" and target.numel()):
        return None
    memory = (ctypes.c_ubyte * target.nbytes).from_address(target.data_ptr())
    return memoryview(memory).cast("B")


def _copy(
    source: _Source, piece: Piece, tensor: Tensor, item: ReadItem, target: torch.Tensor
) -> None:
    size_bytes = math.prod(piece.sizes) * tensor.item_bytes
    if size_bytes == 0:
        return
    data = bytearray(size_bytes)
    source.fill(memoryview(data))
    read = torch.frombuffer(data, dtype=dtype(tensor.dtype)).view(piece.sizes)
    box = _box(read, item.storage_offsets, item.lengths)
    target.copy_(box)
    refuse_overflow(item.storage_index.fqn, box, target)


def _box(tensor: torch.Tensor, offsets: torch.Size, lengths: torch.Size) -> torch.Tensor:
    for dimension, (offset, length) in enumerate(zip(offsets, lengths, strict=True)):
        tensor = tensor.narrow(dimension, offset, length)
    return tensor
