"""What copies of checkpoints there are in object storage; see `copies` for how they get there."""

import logging
from typing import NamedTuple

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.listing import PREFIX, Newer
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.checkpoint_files.store import Store
from slurm_resilience.errors import CheckpointLoadError, CheckpointVersionError
from slurm_resilience.plain import plain

log = logging.getLogger(__name__)


class Copy(NamedTuple):
    """A whole copy."""

    name: str
    manifest: Manifest


class Stored(NamedTuple):
    """What has a manifest in a place."""

    copies: list[Copy]
    """Whole ones, the latest step first."""
    unfit: dict[str, str]
    """Why the others are none, by their names."""


def copied(store: Store) -> list[Copy]:
    """All whole copies, the latest step first; what else has a manifest is said."""
    return stored(store).copies


def stored(store: Store) -> Stored:
    """All that has a manifest; what cannot be used is said."""
    copies: list[Copy] = []
    unfit: dict[str, str] = {}
    for name in store.names():
        if not name.startswith(PREFIX):
            continue
        try:
            if copy := _look(store, name):
                copies.append(copy)
        except CheckpointLoadError as error:
            log.warning("%s/%s: %s", store.url, name, error)
            is_newer = isinstance(error, CheckpointVersionError)
            unfit[name] = Newer(error) if is_newer else str(error)
    copies.sort(key=lambda copy: copy.manifest.step, reverse=True)
    return Stored(copies, unfit)


def _look(store: Store, name: str) -> Copy | None:
    sizes = store.sizes(name)
    if manifests.NAME not in sizes:
        return None
    data = store.read(f"{name}/{manifests.NAME}", most_bytes=manifests.MOST_BYTES)
    manifest = manifests.parsed(data)
    for file, known in manifest.files.items():
        if sizes.get(file) != known.size_bytes:
            raise CheckpointLoadError(f"{plain(file)} is missing or cut")
    return Copy(name, manifest)
