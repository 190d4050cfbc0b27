"""
Which piece of which tensor lies where: `index.json`.

It says what `torch.distributed.checkpoint` keeps in a pickled `.metadata`; here it is JSON, checked
against the files before a byte is read or allocated. No torch: `checkpoint verify` checks what
`restore` does.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

import msgspec

from slurm_resilience.checkpoint_files.boxes import overlap
from slurm_resilience.checkpoint_files.manifest import Count, File
from slurm_resilience.errors import CheckpointLoadError

MOST_DIMENSIONS = 64
"""As in torch."""
TENSORS = ".tensors"
MOST_SIZE = (1 << 63) - 1
"""Elements along one side and bytes of one tensor, as in torch."""

ITEM_BYTES = {
    name: size_bytes
    for size_bytes, names in {
        1: (
            "bool uint8 int8 uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 "
            "int7 float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
            "float8_e8m0fnu bits8 bits1x8 bits2x4 bits4x2 quint8 qint8 quint4x2 quint2x4"
        ),
        2: "float16 bfloat16 int16 uint16 bits16",
        4: "float32 int32 uint32 complex32 qint32",
        8: "float64 int64 uint64 complex64",
        16: "complex128",
    }.items()
    for name in names.split()
}
"""Bytes of one element, by the name of torch's dtype."""


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
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
        return ITEM_BYTES[self.dtype]


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All tensors of a checkpoint by name."""

    tensors: dict[str, Tensor]


def parsed(data: bytes, files: Mapping[str, File], *, partial: bool = False) -> Index:
    """
    The index in *data*; *files* are those of the manifest.

    Raises `CheckpointLoadError` where its dtype is none of torch's; where a piece lies outside its
    file or its tensor; where two pieces of a tensor or of a file share some of it; or where those of
    a tensor leave a hole, but for *partial*: a wrong size never becomes an allocation.
    """
    try:
        index = msgspec.json.decode(data, type=Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointLoadError(str(error)) from error
    check(index, files, partial=partial)
    return index


def check(index: Index, files: Mapping[str, File], *, partial: bool) -> None:
    """Raise as `parsed` where *index* is none that a checkpoint of these *files* can have."""
    try:
        for name, tensor in index.tensors.items():
            _check(f"tensor {name[:80]!r}", tensor, files, partial=partial)
        _check_files(index.tensors.values())
    except ValueError as error:
        raise CheckpointLoadError(str(error)) from error


def _check(what: str, tensor: Tensor, files: Mapping[str, File], *, partial: bool) -> None:
    if tensor.dtype not in ITEM_BYTES:
        raise ValueError(f"{what} has an unknown dtype {tensor.dtype[:40]!r}")
    is_absurd = len(tensor.sizes) > MOST_DIMENSIONS or max(tensor.sizes, default=0) > MOST_SIZE
    if is_absurd or math.prod(tensor.sizes) * tensor.item_bytes > MOST_SIZE:
        raise ValueError(f"{what} has a shape that no tensor can have")
    for piece in tensor.pieces:
        _check_piece(what, piece, tensor, files)
    boxes = [piece for piece in tensor.pieces if all(piece.sizes)]
    lacking = math.prod(tensor.sizes) - sum(math.prod(piece.sizes) for piece in boxes)
    if lacking < 0 or overlap(boxes):
        raise ValueError(f"{what} has pieces that overlap")
    if lacking > 0 and not partial:
        raise ValueError(f"{what} has a hole between its pieces")


def _check_piece(what: str, piece: Piece, tensor: Tensor, files: Mapping[str, File]) -> None:
    if not _is_inside(piece, tensor.sizes):
        raise ValueError(f"{what} has a piece outside it")
    if not piece.file.endswith(TENSORS) or piece.file not in files:
        raise ValueError(f"{what} has a piece in {piece.file[:80]!r}, no file of tensors here")
    if piece.at + math.prod(piece.sizes) * tensor.item_bytes > files[piece.file].size_bytes:
        raise ValueError(f"{what} has a piece beyond the end of {piece.file}")


def _is_inside(piece: Piece, sizes: tuple[int, ...]) -> bool:
    return len(piece.offsets) == len(piece.sizes) == len(sizes) and all(
        offset + size <= whole
        for offset, size, whole in zip(piece.offsets, piece.sizes, sizes, strict=True)
    )


def _check_files(tensors: Iterable[Tensor]) -> None:
    taken: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for tensor in tensors:
        for piece in tensor.pieces:
            if size_bytes := math.prod(piece.sizes) * tensor.item_bytes:
                taken[piece.file].append((piece.at, piece.at + size_bytes))
    for file, ranges in taken.items():
        ranges.sort()
        if any(end > start for (_, end), (start, _) in pairwise(ranges)):
            raise ValueError(f"two pieces have bytes of {file} in common")
