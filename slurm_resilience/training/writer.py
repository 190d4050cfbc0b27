"""Putting a checkpoint on disk so that it is whole under its name, or not there."""

import logging
import os
import platform
import shutil
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.blocks import write
from slurm_resilience.checkpoint_files.digest import digest
from slurm_resilience.checkpoint_files.keep import SAVING
from slurm_resilience.checkpoint_files.listing import directory_name, look
from slurm_resilience.checkpoint_files.manifest import File, Manifest
from slurm_resilience.checkpoint_files.quarantine import damage, set_aside, thin_out
from slurm_resilience.errors import CheckpointError, CheckpointInUseError
from slurm_resilience.files import sync_directory
from slurm_resilience.training.beside import beside
from slurm_resilience.training.drafting import Draft, Written
from slurm_resilience.training.state import Values

log = logging.getLogger(__name__)


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


def write_part(
    unfinished: Path,
    rank: int,
    block: memoryview,
    values: Values,
) -> Written:
    """Write what is this rank's, and make it last."""
    content = {
        manifests.tensors_name(rank): block,
        manifests.values_name(rank): memoryview(msgspec.msgpack.encode(values)),
    }
    files = {name: write(unfinished / name, data) for name, data in content.items()}
    sync_directory(unfinished)
    return Written(files, platform.node())


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
