"""Putting a checkpoint on disk so that it is whole under its name, or not there."""

import logging
import os
import platform
import secrets
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import WriteItem

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.blocks import write
from slurm_resilience.checkpoint_files.digest import digest
from slurm_resilience.checkpoint_files.index import Piece, check
from slurm_resilience.checkpoint_files.keep import SAVING
from slurm_resilience.checkpoint_files.listing import directory_name, look
from slurm_resilience.checkpoint_files.manifest import File, Manifest, Part
from slurm_resilience.checkpoint_files.quarantine import damage, set_aside, thin_out
from slurm_resilience.errors import CheckpointError, CheckpointInUseError
from slurm_resilience.files import sync_directory
from slurm_resilience.training.beside import beside
from slurm_resilience.training.index import indexed
from slurm_resilience.training.nodes import Nodes
from slurm_resilience.training.state import Values

log = logging.getLogger(__name__)


class Written(NamedTuple):
    """What one rank has written."""

    files: dict[str, File]
    pieces: list[tuple[str, Piece]]
    node: str
    poison: str = ""
    """Which NaN or infinity is among them; empty: none was seen."""


class Draft(NamedTuple):
    """What one rank adds to what all have written, so that a directory becomes a checkpoint."""

    manifest: Manifest
    index_json: bytes


class Standing:
    """
    A directory of which this rank keeps hold while another gives it a new name.

    For a while a network file system may show a node what had that name before.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def path(self) -> Path:
        """A name by which the directory is found, also when it has another one."""
        return (
            self._path
            if self._descriptor is None
            else Path(f"/proc/self/fd/{self._descriptor}")
        )

    def __enter__(self) -> "Standing":  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def hold(self) -> None:
        """Keep hold from now on; `OSError` where there is no such directory."""
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


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
) -> Written:
    """Write what is this rank's, and make it last."""
    content = {
        manifests.tensors_name(rank): block,
        manifests.values_name(rank): memoryview(msgspec.msgpack.encode(values)),
    }
    files = {name: write(unfinished / name, data) for name, data in content.items()}
    sync_directory(unfinished)
    return Written(files, pieces, platform.node())


def drafts(
    known: Manifest, metadata: Metadata, written: Sequence[Written], nodes: Nodes
) -> list[Draft]:
    """
    By rank, what it adds to what all have *written*: those that lead, manifest and index of the
    checkpoint or of their node's part of it; to the others is only told what is *known*.

    Raises `CheckpointError` where the pieces make no index that can be loaded.
    """
    by_rank, whole = [Draft(known, b"")] * len(written), secrets.token_hex(8)
    for ranks in nodes.groups:
        here = [written[rank] for rank in ranks]
        files = {name: file for one in here for name, file in one.files.items()}
        index = indexed(metadata, [piece for one in here for piece in one.pieces])
        check(index, files, partial=not nodes.are_one)
        text = msgspec.json.encode(index)
        files[manifests.INDEX] = File(size_bytes=len(text), crc32=zlib.crc32(text))
        part = None if nodes.are_one else Part(whole, here[0].node, ranks)
        by_rank[ranks[0]] = Draft(msgspec.structs.replace(known, files=files, part=part), text)
    return by_rank


def complete(unfinished: Path, draft: Draft) -> None:
    """Add index and manifest, and make all of it last; it lacks its name."""
    write(unfinished / manifests.INDEX, memoryview(draft.index_json))
    write(unfinished / manifests.NAME, memoryview(manifests.encoded(draft.manifest)))
    sync_directory(unfinished)


def give_name(unfinished: Path, manifest: Manifest) -> None:
    """
    Give the checkpoint its name. One that has it is put aside, never overwritten.

    When this returns, the checkpoint is on disk; nothing may be deleted for it before `read_back`.
    """
    path = unfinished.parent / directory_name(manifest.step)
    if os.path.lexists(path):
        set_aside(path, "its step was saved again")
    try:
        unfinished.rename(path)
    except FileNotFoundError:
        # A network file system may have done it, and heard the question twice.
        if manifests.read(path) != manifest:
            raise
    sync_directory(path.parent)


def clear(unfinished: Path, path: Path, error: Exception, confirm: Callable[[], None]) -> None:
    """
    Take what a failed save left out of the way of those that are whole.

    *confirm* raises where the directory is another's by now: then what has the name is too.
    """
    shutil.rmtree(unfinished, ignore_errors=True)
    if isinstance(error, CheckpointInUseError) or isinstance(error.__cause__, OSError):
        return  # another's, gone, or not readable: no word on what lies there
    try:
        confirm()
        entry = look(path)
        if entry.manifest and damage(entry):
            set_aside(path, str(error))
            beside(lambda: thin_out(path.parent))  # the next save need not wait for it
    except (OSError, CheckpointError) as trouble:
        log.warning("%s: cannot be put aside: %s", path, trouble)


def read_back(
    place: Path, path: Path, files: Mapping[str, File], manifest: Manifest | None
) -> None:
    """
    Compare what this rank wrote of the checkpoint *path*, *manifest* where it wrote that too, with
    what the disk gives back in *place*, which is another name of it.

    Raises `CheckpointError` where it is something else.
    """
    more = {}
    if manifest:
        sealed = manifests.encoded(manifest)
        more[manifests.NAME] = File(size_bytes=len(sealed), crc32=zlib.crc32(sealed))
        more[manifests.INDEX] = manifest.files[manifests.INDEX]
    for file, written in {**files, **more}.items():
        if digest(place / file, from_disk=True) != written:
            raise CheckpointError(f"{path / file}: what was written does not read back")
