"""The way back from copies in object storage: into a directory that holds none, whole or not at all."""

import logging
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.blocks import in_threads
from slurm_resilience.checkpoint_files.copies import Counted
from slurm_resilience.checkpoint_files.keep import SAVING
from slurm_resilience.checkpoint_files.listing import Newer, directory_name, look, problems
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.checkpoint_files.owner import confirm
from slurm_resilience.checkpoint_files.quarantine import set_aside
from slurm_resilience.checkpoint_files.store import Store
from slurm_resilience.checkpoint_files.stored import Copy, copied, stored
from slurm_resilience.errors import (
    CheckpointCopyError,
    CheckpointLoadError,
    CheckpointPlaceError,
)
from slurm_resilience.files import sync_directory
from slurm_resilience.plain import plain

log = logging.getLogger(__name__)

FETCHING = f"{SAVING}copy-"


def fetch_named(store: Store, name: str, directory: Path, *, owner: str = "") -> Path:
    """
    Bring one copy back into *directory*; where it lies now. What has its name there is put aside,
    unless it is the same, and sound.

    Raises as `fetch_newest`.
    """
    copy = next((copy for copy in copied(store) if copy.name == name), None)
    if copy is None:
        raise CheckpointCopyError(f"{store.url}: there is no whole copy {plain(name)!r}")
    try:
        return _fetch(store, copy, directory, owner)
    except CheckpointLoadError as error:
        raise CheckpointCopyError(f"{store.url}/{copy.name}: {error}") from error


def fetch_newest(store: Store, directory: Path, *, owner: str = "") -> Path | None:
    """
    Bring the newest whole copy back into *directory*; where it lies now, None: nothing there has a
    manifest. *owner*: the token of a claim under which it is done.

    Raises `CheckpointCopyError` where something has and none verifies, where a newer version of this
    package wrote some of it, or the storage fails; `CheckpointPlaceError` where there is no room;
    `CheckpointInUseError` where another has taken the directory over from *owner*.
    """
    copies, unfit = stored(store)
    for name, why in unfit.items():
        if isinstance(why, Newer):
            raise CheckpointCopyError(
                f"{store.url}/{name}: {why}; install that one, or move it away"
            )
    unfit = dict(unfit)
    for copy in copies:
        try:
            path = _fetch(store, copy, directory, owner)
        except CheckpointLoadError as error:  # noqa: PERF203 - each by itself
            log.warning("%s/%s: %s", store.url, copy.name, error)
            unfit[copy.name] = str(error)
        else:
            if any(name > copy.name for name in unfit):
                log.warning("%s: an older copy is used: %s", store.url, copy.name)
            return path
    for name, why in unfit.items():
        raise CheckpointCopyError(
            f"{store.url}: none of the {len(unfit)} copies there is sound ({name}: {why}); to begin "
            "anew, move them away"
        )
    return None


def remove_cut_off(directory: Path) -> None:
    """Delete what fetches that were killed have left; for who keeps jobs out of *directory*."""
    for left in directory.glob(f"{FETCHING}*"):
        shutil.rmtree(left, ignore_errors=True)


def _fetch(store: Store, copy: Copy, directory: Path, owner: str) -> Path:
    path = directory / directory_name(copy.manifest.step)
    there = look(path)
    if isinstance(there.problem, Newer):
        raise CheckpointPlaceError(f"{path}: {there.problem}; move it away")
    if there.manifest == copy.manifest and not any(problems(there)):
        log.info("%s is there already: nothing to fetch", path)
        return path
    _check_room(directory, copy.manifest)
    unfinished = directory / f"{FETCHING}{path.name}-{secrets.token_hex(8)}"
    unfinished.mkdir()
    try:

        def receive(file: str) -> None:
            known = copy.manifest.files[file]
            received = Counted(store.blocks(f"{copy.name}/{file}"))
            _write(unfinished / file, received, most_bytes=known.size_bytes)
            if received.file != known:
                raise CheckpointLoadError(f"{file} is damaged: its digest differs")

        in_threads(receive, list(copy.manifest.files))
        sealed = manifests.encoded(copy.manifest)
        _write(unfinished / manifests.NAME, iter([sealed]), most_bytes=len(sealed))
        sync_directory(unfinished)
        if owner:
            confirm(directory, owner)  # what has the name may be another's by now
        if os.path.lexists(path):
            set_aside(path, "a copy of its step was fetched")
        unfinished.rename(path)
        sync_directory(directory)
    except OSError as error:
        raise CheckpointPlaceError(f"{unfinished}: {error.strerror}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return path


def _write(path: Path, blocks: Iterable[bytes], *, most_bytes: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        written = 0
        for block in blocks:
            written += len(block)
            if written > most_bytes:
                raise CheckpointLoadError(f"{path.name} is longer than its manifest says")
            rest = memoryview(block)
            while rest:
                rest = rest[file.write(rest) :]
        os.fsync(descriptor)


def _check_room(directory: Path, manifest: Manifest) -> None:
    free = os.statvfs(directory)
    free_bytes = free.f_bavail * free.f_frsize
    if manifest.size_bytes > free_bytes:
        raise CheckpointPlaceError(
            f"{directory} has {free_bytes >> 20} MiB free, the copy of step {manifest.step} needs "
            f"{manifest.size_bytes >> 20}: make room, or give Checkpoints(...) another directory"
        )
