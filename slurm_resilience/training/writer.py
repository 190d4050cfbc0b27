"""Putting a checkpoint on disk so that it is whole under its name, or not there."""

import os
import shutil
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import WriteItem

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.digest import BLOCK_BYTES, digest
from slurm_resilience.checkpoint_files.keep import SAVING, set_aside
from slurm_resilience.checkpoint_files.listing import Found, directory_name, problems
from slurm_resilience.checkpoint_files.manifest import File, Manifest
from slurm_resilience.errors import CheckpointError
from slurm_resilience.files import sync_directory
from slurm_resilience.training.index import Piece, indexed
from slurm_resilience.training.state import Values


class Part(NamedTuple):
    """What one rank has written."""

    files: dict[str, File]
    pieces: list[tuple[str, Piece]]


def open_unfinished(directory: Path, step: int, token: str) -> Path:
    """Make the directory in which the checkpoint of *step* is put together."""
    path = directory / f"{SAVING}{directory_name(step)}-{token}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def placed(
    items: Sequence[WriteItem], places: Sequence[int], rank: int
) -> list[tuple[str, Piece]]:
    """The pieces that *rank* writes, by the names of their tensors."""
    file = manifests.tensors_name(rank)
    pieces = []
    for item, at in zip(items, places, strict=True):
        if item.tensor_data is None:
            raise CheckpointError(f"{item.index.fqn} is not a tensor")
        chunk = item.tensor_data.chunk
        pieces.append(
            (item.index.fqn, Piece(tuple(chunk.offsets), tuple(chunk.sizes), file, at))
        )
    return pieces


def write_part(
    unfinished: Path,
    rank: int,
    block: memoryview,
    values: Values,
    pieces: list[tuple[str, Piece]],
) -> Part:
    """Write what is this rank's, make it last, and read it back."""
    content = {
        manifests.tensors_name(rank): block,
        manifests.values_name(rank): memoryview(msgspec.msgpack.encode(values)),
    }
    files = {name: _write(unfinished / name, data) for name, data in content.items()}
    sync_directory(unfinished)
    return Part(files, pieces)


def seal(
    unfinished: Path, manifest: Manifest, metadata: Metadata, parts: Sequence[Part]
) -> Manifest:
    """
    Complete the checkpoint: index, manifest, fsync, its own name. Returns the full manifest.

    *manifest* lacks the files. An unsound checkpoint that has the name is put aside, never
    overwritten. When this returns, the checkpoint is on disk and its files have been read back.
    """
    index = indexed(metadata, [piece for part in parts for piece in part.pieces])
    files = {name: file for part in parts for name, file in part.files.items()}
    text = msgspec.json.encode(index)
    files[manifests.INDEX] = _write(unfinished / manifests.INDEX, memoryview(text))
    whole = msgspec.structs.replace(manifest, files=files)
    _write(unfinished / manifests.NAME, memoryview(manifests.encoded(whole)))
    sync_directory(unfinished)
    path = unfinished.parent / directory_name(manifest.step)
    if path.exists():
        set_aside(path)
    unfinished.rename(path)
    sync_directory(path.parent)
    entry = Found(path, manifests.read(path))
    if lost := next(problems(entry, shares=0), ""):
        raise CheckpointError(f"{path}: {lost}, just after it was written")
    return whole


def _write(path: Path, data: memoryview) -> File:
    """Write, fsync, read back from the disk; `CheckpointError` where something else comes back."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    crc = 0
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        for at in range(0, len(data), BLOCK_BYTES):
            block = data[at : at + BLOCK_BYTES]
            crc = zlib.crc32(block, crc)
            while block:
                block = block[file.write(block) :]
        os.fsync(descriptor)
    written = File(size_bytes=len(data), crc32=crc)
    if digest(path, from_disk=True) != written:
        raise CheckpointError(f"{path}: what was written does not read back")
    return written
