"""
What a checkpoint consists of: `manifest.json`, the last file written into it.

A checkpoint is whole when its manifest is there and every file has the size and digest that it
names. The manifest carries a digest of itself. Digests find damage, not malice: whoever can
write the directory can write a manifest too.
"""

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from slurm_resilience.errors import (
    CheckpointLoadError,
    CheckpointVersionError,
    UntrustedFileError,
)
from slurm_resilience.files import read_bounded
from slurm_resilience.plain import plain

NAME = "manifest.json"
INDEX = "index.json"
MOST_BYTES = 64 << 20
_FILE_NAME = re.compile(r"index\.json|rank-\d{5,7}\.(tensors|values)")

Count = Annotated[int, msgspec.Meta(ge=0)]
MOST_COUNT = (1 << 63) - 1
MOST_RANKS = 9_999_999
"""As many as their files have names for."""
LATEST = 253402300799.0
"""The end of the year 9999, in Unix seconds."""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Size and digest of one file."""

    size_bytes: Count
    crc32: Count


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of a checkpoint lies on one node's own disk; the other parts lie on other nodes."""

    whole: str
    """Made anew for each save; the same in all parts of it."""
    node: str
    """Where it was written."""
    ranks: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)]
    """Whose files it holds."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One checkpoint: the state after `step`, written by `world_size` ranks."""

    format: Literal[1]
    step: Count
    world_size: Annotated[int, msgspec.Meta(ge=1)]
    saved_at: Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
    """Unix seconds."""
    took_s: Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
    """From the call to save until all data were on disk; index, manifest and reading back follow."""
    job: str
    """The Slurm job; empty outside Slurm."""
    files: dict[str, File]
    poison: str = ""
    """Which NaN or infinity the state holds, in whichever part; empty: none was seen."""
    part: Part | None = None
    """None: all of the checkpoint is here."""

    @property
    def ranks(self) -> Sequence[int]:
        """Whose files are here."""
        return self.part.ranks if self.part else range(self.world_size)

    @property
    def identity(self) -> str:
        """The same for all parts of one checkpoint, and for all copies of a whole one."""
        return self.part.whole if self.part else f"{zlib.crc32(encoded(self)):08x}"

    @property
    def size_bytes(self) -> int:
        """Bytes of all files together, without the manifest."""
        return sum(file.size_bytes for file in self.files.values())


class _Sealed(msgspec.Struct, frozen=True):
    crc32: int
    manifest: msgspec.Raw


class _Strict(_Sealed, frozen=True, forbid_unknown_fields=True):
    pass


def tensors_name(rank: int) -> str:
    """The file with the tensor pieces that *rank* wrote."""
    return f"rank-{rank:05d}.tensors"


def values_name(rank: int) -> str:
    """The file with everything else of *rank*."""
    return f"rank-{rank:05d}.values"


def encoded(manifest: Manifest) -> bytes:
    """The content of `manifest.json`."""
    text = msgspec.json.encode(manifest)
    return (
        msgspec.json.encode(_Sealed(crc32=zlib.crc32(text), manifest=msgspec.Raw(text))) + b"\n"
    )


def parsed(data: bytes) -> Manifest:
    """
    The manifest in *data*.

    Raises `CheckpointLoadError` where it is cut, damaged, or names a file that no checkpoint has (a
    path that leads elsewhere, for one); `CheckpointVersionError` where its digest is right, so that it
    is as it was written, and its format or a key of it is not known here.
    """
    try:
        sealed = msgspec.json.decode(data, type=_Sealed)
        if zlib.crc32(sealed.manifest) != sealed.crc32:
            raise CheckpointLoadError(f"{NAME} is damaged: its digest differs")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointLoadError(f"{NAME} is damaged: {error}") from error
    try:
        msgspec.json.decode(data, type=_Strict)
        manifest = msgspec.json.decode(sealed.manifest, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointVersionError(
            f"{NAME} was written by a newer slurm_resilience: {plain(str(error))}"
        ) from error
    for name in manifest.files:
        if not _FILE_NAME.fullmatch(name):
            raise CheckpointLoadError(
                f"{NAME} names {name[:80]!r}, which is no file of a checkpoint"
            )
    counts = [manifest.step, *(file.size_bytes for file in manifest.files.values())]
    if manifest.world_size > MOST_RANKS or max(counts) > MOST_COUNT:
        raise CheckpointLoadError(f"{NAME} has a number that no checkpoint has")
    ranks = manifest.ranks
    if len(ranks) > len(manifest.files):  # before as many names are made up
        raise CheckpointLoadError(f"{NAME} names fewer files than it has ranks")
    if manifest.part and not max(ranks) < manifest.world_size:
        raise CheckpointLoadError(f"{NAME} is the part of a rank that there was not")
    needed = {INDEX, *map(tensors_name, ranks), *map(values_name, ranks)}
    if missing := needed - manifest.files.keys():
        raise CheckpointLoadError(f"{NAME} does not name {min(missing)}")
    return manifest


def read(checkpoint: Path) -> Manifest:
    """The manifest of the checkpoint in directory *checkpoint*; `CheckpointLoadError` as `parsed`."""
    try:
        data = read_bounded(checkpoint / NAME, most_bytes=MOST_BYTES)
    except FileNotFoundError as error:
        raise CheckpointLoadError(f"{NAME} is missing") from error
    except OSError as error:
        raise CheckpointLoadError(f"{NAME}: {error.strerror}") from error
    except UntrustedFileError as error:
        raise CheckpointLoadError(str(error)) from error
    except ValueError as error:  # a NUL in the name
        raise CheckpointLoadError(f"{checkpoint.name!r}: {error}") from error
    return parsed(data)
