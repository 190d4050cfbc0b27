"""
Which copies go, once a newer one has been made.

Of parts, which each node copies by itself, never the last of which there are all: each node deletes
what it was cut off sending and nothing else. The node of rank 0 deletes copies, of all nodes' parts,
and those alone that are older than the newest checkpoints whose parts it has all seen in the storage.
So a node that is late, fails or dies leaves all parts of one where they are, until all parts of a
newer one are there.
"""

import re
from collections import defaultdict
from typing import NamedTuple

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.listing import PREFIX
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.checkpoint_files.store import PART, Store
from slurm_resilience.checkpoint_files.stored import Copy, copied

NAMED = re.compile(rf"{PREFIX}\d+-[0-9a-f]{{8}}")
"""What a copy is called, and a checkpoint is not: nothing else is ever deleted."""
BEGUN = 2
"""Later checkpoints that stay though parts are lacking: nodes may be sending these."""


class Placed(NamedTuple):
    """A copy and the place where it lies."""

    store: Store
    copy: Copy


def part_folder(first_rank: int) -> str:
    """Where among the copies those of the parts of a node lie."""
    return f"part-{first_rank:05d}"


def thin_out(store: Store, made: Manifest, *, keep: int) -> None:
    """
    Delete what copies that were cut off have left, then all but the newest *keep* and the one just
    *made*: it has a lower step than others where the training went back.

    What has a manifest that is not understood stays: another version may have written it.
    """
    for name in store.names():
        if NAMED.fullmatch(name) and manifests.NAME not in store.sizes(name):
            store.delete(name, folder=True)
    if made.part is None or not PART.search(store.url):
        going = _placed(store)[keep:]
    elif made.part.ranks[0] == 0:
        going = _without_the_newest(_all_parts(Store(PART.sub("", store.url))), keep=keep)
    else:
        going = []
    for at, copy in going:
        if copy.manifest.identity != made.identity:
            at.delete(f"{copy.name}/{manifests.NAME}")  # first: from here on it is no copy
            at.delete(copy.name, folder=True)


def _placed(store: Store) -> list[Placed]:
    return [Placed(store, copy) for copy in copied(store) if NAMED.fullmatch(copy.name)]


def _all_parts(base: Store) -> list[Placed]:
    places = [Store(f"{base.url}/{name}") for name in base.names()]
    return [one for place in places if PART.search(place.url) for one in _placed(place)]


def _without_the_newest(parts: list[Placed], *, keep: int) -> list[Placed]:
    """But for the newest *keep* of which all are there, and a few that are later still."""
    ranks: dict[str, set[int]] = defaultdict(set)
    for _, copy in parts:
        ranks[copy.manifest.identity].update(copy.manifest.ranks)
    manifests_of = {copy.manifest.identity: copy.manifest for _, copy in parts}
    latest_first = sorted(manifests_of, key=lambda one: (-manifests_of[one].step, one))
    whole = [one for one in latest_first if len(ranks[one]) == manifests_of[one].world_size]
    begun = latest_first[: latest_first.index(whole[0])] if whole else latest_first
    staying = {*whole[:keep], *begun[: max(keep, BEGUN)]}
    return [one for one in parts if one.copy.manifest.identity not in staying]
