"""Putting a checkpoint on disk so that it is whole under its name, or not there."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import WriteItem

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.blocks import write
from slurm_resilience.checkpoint_files.digest import digest
from slurm_resilience.checkpoint_files.keep import SAVING
from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.checkpoint_files.manifest import File, Manifest
from slurm_resilience.checkpoint_files.quarantine import set_aside
from slurm_resilience.errors import CheckpointError
from slurm_resilience.files import sync_directory
from slurm_resilience.training.index import Piece, indexed
from slurm_resilience.training.state import Values


class Part(NamedTuple):
    """What one rank has written."""

    files: dict[str, File]
    pieces: list[tuple[str, Piece]]
    poison: str = ""
    """Which NaN or infinity is among them; empty: none was seen."""


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
    """Write what is this rank's, and make it last."""
    content = {
        manifests.tensors_name(rank): block,
        manifests.values_name(rank): memoryview(msgspec.msgpack.encode(values)),
    }
    files = {name: write(unfinished / name, data) for name, data in content.items()}
    sync_directory(unfinished)
    return Part(files, pieces)


def seal(
    unfinished: Path, manifest: Manifest, metadata: Metadata, parts: Sequence[Part]
) -> Manifest:
    """
    Complete the checkpoint: index, manifest, fsync, its own name. Returns the full manifest.

    *manifest* lacks the files. A checkpoint that has the name is put aside, never overwritten.
    When this returns, the checkpoint is on disk; nothing may be deleted for it before `read_back`.
    """
    index = indexed(metadata, [piece for part in parts for piece in part.pieces])
    files = {name: file for part in parts for name, file in part.files.items()}
    text = msgspec.json.encode(index)
    files[manifests.INDEX] = write(unfinished / manifests.INDEX, memoryview(text))
    whole = msgspec.structs.replace(manifest, files=files)
    write(unfinished / manifests.NAME, memoryview(manifests.encoded(whole)))
    sync_directory(unfinished)
    path = unfinished.parent / directory_name(manifest.step)
    if os.path.lexists(path):
        set_aside(path, "its step was saved again")
    try:
        unfinished.rename(path)
    except FileNotFoundError:
        # A network file system may have done it, and heard the question twice.
        if manifests.read(path) != whole:
            raise
    sync_directory(path.parent)
    return whole


def read_back(path: Path, manifest: Manifest, rank: int) -> None:
    """
    Compare what *rank* wrote of the checkpoint with what the disk gives back.

    Raises `CheckpointError` where it is something else.
    """
    names = [manifests.tensors_name(rank), manifests.values_name(rank)]
    if rank == 0:
        names.append(manifests.INDEX)
        if manifests.read(path) != manifest:
            raise CheckpointError(
                f"{path / manifests.NAME}: what was written does not read back"
            )
    for name in names:
        if digest(path / name, from_disk=True) != manifest.files[name]:
            raise CheckpointError(f"{path / name}: what was written does not read back")
