"""
Which checkpoints the nodes hold together, where each holds a part.

A whole one counts as well, where every node has a copy of it.
"""

import platform
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.checkpoint_files.listing import Found, Newer, found, step_of
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.plain import plain
from slurm_resilience.training.nodes import Nodes
from slurm_resilience.training.peers import Peers


class Held(NamedTuple):
    """What this rank's directory holds, and what all ranks have of it."""

    whole: list[Found]
    """All ranks have their parts; the newest first, in the same order on each."""
    parted: list[tuple[Found, str]]
    """Here, but of no use to this job, and why."""
    unreadable: list[Found]
    """They have no manifest."""
    lack: str
    """What is missing of the newest that is not whole, said alike on all ranks; empty: nothing is."""
    unreadable_anywhere: str
    """What has no manifest, in whichever directory; said alike on all ranks."""
    newer_anywhere: str
    """What a newer version of this package wrote, alike."""


class _Seen(NamedTuple):
    """The directory of one rank, by the identity of the checkpoints in it."""

    node: str
    steps: dict[str, int]
    misfits: dict[str, str]
    unreadable: str
    newer: str


def held(directory: Path, peers: Peers, nodes: Nodes) -> Held:
    """
    Look, without reading the data; every rank has to come here.

    Raises `CheckpointPlaceError` on all of them where a directory cannot be read.
    """
    entries = nodes.told(peers, lambda: found(directory))
    unreadable = [entry for entry in entries if entry.manifest is None]
    mine = {_key(entry, nodes): entry for entry in entries if entry.manifest}
    misfits = {key: misfit(one.manifest, peers, nodes) for key, one in mine.items()}
    seen = _Seen(
        platform.node(),
        {key: step_of(entry) for key, entry in mine.items()},
        {key: why for key, why in misfits.items() if why},
        next((f"{one.path.name}: {one.problem}" for one in unreadable), ""),
        next((str(one.path) for one in unreadable if isinstance(one.problem, Newer)), ""),
    )
    all_seen = [seen] if nodes.are_one else peers.each(lambda: seen)
    lacks = _lacks(all_seen)
    steps = {key: step for one in all_seen for key, step in one.steps.items()}
    latest = max(lacks, key=lambda key: (steps[key], key), default=None)
    whole = [key for key in mine if key not in lacks]
    if not nodes.are_one:
        whole.sort(key=lambda key: (steps[key], key), reverse=True)
    return Held(
        [mine[key] for key in whole],
        [(mine[key], why) for key, why in lacks.items() if key in mine],
        unreadable,
        "" if latest is None else f"step {steps[latest]}: {lacks[latest]}",
        next((one.unreadable for one in all_seen if one.unreadable), ""),
        next((f"{one.node}: {one.newer}" for one in all_seen if one.newer), ""),
    )


def misfit(manifest: Manifest | None, peers: Peers, nodes: Nodes) -> str:
    """Why a part is not the one that is needed here; empty: it is, or it is no part."""
    if manifest is None or manifest.part is None:
        return ""
    node, ranks = plain(manifest.part.node, most=80), manifest.part.ranks
    if manifest.world_size != peers.world_size:
        return (
            f"it is a part, from {node}, of what {manifest.world_size} ranks saved, and this job "
            f"has {peers.world_size}"
        )
    if not set(nodes.ranks) <= set(ranks):
        return f"it is the part of {spelled(ranks)}, from {node}, and {spelled(nodes.ranks)} run here"
    return ""


def spelled(ranks: tuple[int, ...]) -> str:
    """Ranks for a message: the first and the last."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"


def _key(entry: Found, nodes: Nodes) -> str:
    # Of two copies in one directory, one may be damaged.
    one = nodes.are_one or entry.manifest is None
    return str(entry.path) if one or entry.manifest is None else entry.manifest.identity


def _lacks(all_seen: list[_Seen]) -> dict[str, str]:
    """What not all have, and what is missing of it first."""
    lacks: dict[str, str] = {}
    for seen in all_seen:
        for key, why in seen.misfits.items():
            lacks.setdefault(key, f"{seen.node}: {why}")
    for key in {key for seen in all_seen for key in seen.steps}:
        for rank, seen in enumerate(all_seen):
            if key not in seen.steps:
                lacks.setdefault(
                    key, f"{seen.node}, where rank {rank} runs, holds no part of it"
                )
    return lacks
