"""
Copies of checkpoints in object storage, whole at any instant; see `fetching` for the way back.

    <url>/step-000000499-5d0c1f2a/     the step, and the digest of the manifest
        index.json, rank-…             first
        manifest.json                  last: without it there is no copy

A copy is never overwritten: a step that was saved anew has another manifest, so another name. Each
byte's digest is taken as it is sent or received, and compared with the local or the copied manifest.
"""

import logging
import os
import zlib
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.blocks import in_threads
from slurm_resilience.checkpoint_files.keep import is_poisoned
from slurm_resilience.checkpoint_files.links import kept
from slurm_resilience.checkpoint_files.listing import Found, directory_name, found, senseless
from slurm_resilience.checkpoint_files.manifest import File, Manifest
from slurm_resilience.checkpoint_files.owner import NAME as OWNER
from slurm_resilience.checkpoint_files.store import BLOCK_BYTES, PART, Foreign, Store
from slurm_resilience.checkpoint_files.thinning import part_folder, thin_out
from slurm_resilience.errors import CheckpointCopyError, CheckpointLoadError

log = logging.getLogger(__name__)


def copy_newest(directory: Path, store: Store, *, keep: int) -> str:
    """
    Copy the newest checkpoint that verifies and holds no poison; its name there, empty: there is none.

    What is a node's part goes into a folder of its own, so that it is not counted with other nodes'.
    Then all but it and the newest *keep* copies go. Raises `CheckpointCopyError` where the storage
    fails, or is a directory that jobs save to.
    """
    if OWNER in store.names():
        raise CheckpointCopyError(
            f"{store.url} is a directory of checkpoints itself; give copies a place of their own"
        )
    failed: set[Path] = set()
    while True:  # looks anew after each that is damaged, or was deleted meanwhile
        entry = next((one for one in found(directory) if _is_wanted(one, failed)), None)
        if entry is None or entry.manifest is None:
            return ""
        try:
            place, folder = _place(store, entry)
            with kept(entry.path, entry.manifest) as files:
                name = _copy(files, entry.manifest, place)
        except CheckpointLoadError as error:
            if entry in found(directory):  # else a training has deleted or replaced it
                log.warning("not copied: %s: %s", entry.path, error)
                failed.add(entry.path)
        else:
            thin_out(place, entry.manifest, keep=keep)
            return f"{folder}{name}"


def _place(store: Store, entry: Found) -> tuple[Store, str]:
    """Where the copy goes, and by which folder that lies beneath *store*."""
    part = entry.manifest and entry.manifest.part
    if not part or store.url.endswith(f"/{part_folder(part.ranks[0])}"):
        return store, ""
    folder = part_folder(part.ranks[0])
    if PART.search(store.url):
        raise CheckpointCopyError(
            f"{store.url} is for another node's parts; that of {entry.path} has to lie in {folder}"
        )
    log.info("%s is one node's part: its copies lie in %s/%s", entry.path, store.url, folder)
    return Store(f"{store.url}/{folder}"), f"{folder}/"


def _is_wanted(entry: Found, failed: Container[Path]) -> bool:
    return entry.manifest is not None and not is_poisoned(entry) and entry.path not in failed


def _copy(files: Path, manifest: Manifest, store: Store) -> str:
    sealed = manifests.encoded(manifest)
    name = f"{directory_name(manifest.step)}-{zlib.crc32(sealed):08x}"
    if manifests.NAME in store.sizes(name):
        return name

    for file in manifest.files:
        if why := senseless(files / file, manifest):
            raise CheckpointLoadError(why)

    def send(file: str) -> None:
        sent = Counted(_local(files / file))
        store.write(f"{name}/{file}", sent)
        if sent.file != manifest.files[file]:
            raise CheckpointLoadError(f"{file} is damaged: its digest differs")

    try:
        in_threads(send, list(manifest.files))
    except (CheckpointLoadError, Foreign) as error:
        store.delete(name, folder=True)
        if isinstance(error, Foreign):
            raise CheckpointLoadError(str(error)) from error.error
        raise
    sizes = store.sizes(name)
    for file, known in manifest.files.items():
        if sizes.get(file) != known.size_bytes:
            raise CheckpointCopyError(f"{store.url}/{name}/{file} did not arrive whole")
    store.write(f"{name}/{manifests.NAME}", iter([sealed]))
    return name


def _local(path: Path) -> Iterator[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while data := file.read(BLOCK_BYTES):
                yield data
    except OSError as error:
        raise Foreign(error) from error


class Counted(Iterable[bytes]):
    """Blocks that pass, and what they were together."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self.file = File(size_bytes=0, crc32=0)

    def __iter__(self) -> Iterator[bytes]:
        size, crc = 0, 0
        for block in self._blocks:
            size, crc = size + len(block), zlib.crc32(block, crc)
            self.file = File(size_bytes=size, crc32=crc)
            yield block
