"""The directory before it is ours: found or made, and filled from copies elsewhere where it lacks all."""

import json
import logging
import subprocess
from typing import NamedTuple

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.checkpoint_files.thinning import part_folder
from slurm_resilience.errors import CheckpointCopyError
from slurm_resilience.plain import plain
from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.copier import COMMAND
from slurm_resilience.training.earlier import holds_some, refuse_loss
from slurm_resilience.training.nodes import Nodes, made
from slurm_resilience.training.parts import held, misfit
from slurm_resilience.training.peers import Peers

log = logging.getLogger(__name__)

NONE_THERE = 1


class Offer(NamedTuple):
    """A copy of this node's part of a checkpoint."""

    step: int
    name: str


def opened(checkpoints: Checkpoints, peers: Peers, before: int) -> Nodes:
    """
    The directory, made and filled where that is to be done; who sees it.

    Every rank has to come here; *before* is the step that an earlier attempt had saved, -1: none.
    Raises `CheckpointPlaceError` where nothing of that is there, `CheckpointCopyError` where copies
    cannot be asked for or none is sound, else as `made`.
    """
    directory, per_node = checkpoints.path, checkpoints.per_node
    if not per_node:
        _bring_back(checkpoints, peers)
    if not (per_node and checkpoints.copies):
        _refuse_loss(checkpoints, peers, before)
    nodes = made(directory, peers, per_node=per_node)
    if per_node and checkpoints.copies:
        if nodes.are_one:
            _bring_back(checkpoints, peers)
        else:
            _bring_parts_back(checkpoints, peers, nodes)
        _refuse_loss(checkpoints, peers, before)
    return nodes


def bring_back(checkpoints: Checkpoints) -> None:
    """
    Fetch the newest copy into the directory where that holds no checkpoint at all.

    Raises `CheckpointCopyError` where the storage cannot be asked or no copy in it is sound: to begin
    anew is then for a person to decide.
    """
    directory, url = checkpoints.path, checkpoints.copies
    if (
        url is None
        or not directory.parent.is_dir()
        or (directory.is_dir() and found(directory))
    ):
        return
    directory.mkdir(exist_ok=True)
    if fetched := _asked("fetch", url, str(directory)):
        log.warning("%s held no checkpoint: fetched %s", directory, fetched)


def _bring_back(checkpoints: Checkpoints, peers: Peers) -> None:
    peers.each_at_length(lambda: bring_back(checkpoints) if peers.rank == 0 else None)


def folder(nodes: Nodes) -> str:
    """Where among the copies those of this node's parts lie; empty: there are no parts."""
    return "" if nodes.are_one else part_folder(nodes.ranks[0])


def _refuse_loss(checkpoints: Checkpoints, peers: Peers, before: int) -> None:
    if before < 0:
        return
    if checkpoints.per_node:
        held_by = peers.each(lambda: holds_some(checkpoints.path))
    else:
        held_by = [peers.first(lambda: holds_some(checkpoints.path))]
    peers.first(lambda: refuse_loss(checkpoints.path, before, held=any(held_by)))


def _bring_parts_back(checkpoints: Checkpoints, peers: Peers, nodes: Nodes) -> None:
    """
    Fetch the newest copy of which there are all parts, where the nodes hold no checkpoint together.

    A node that has its part of it fetches nothing.
    """
    directory, url = checkpoints.path, f"{checkpoints.copies}/{folder(nodes)}"
    here = held(directory, peers, nodes)
    if here.whole:
        return
    mine, misfits = nodes.told(peers, lambda: _offers(url, peers, nodes))
    all_offers, all_misfits = zip(*peers.each(lambda: (mine, misfits)), strict=True)
    common = set.intersection(*(set(offers) for offers in all_offers))
    have = {
        one.manifest.identity
        for one, _ in here.parted
        if one.manifest and not misfit(one.manifest, peers, nodes)
    }
    why = next(filter(None, all_misfits), "no checkpoint has copies of all its parts there")
    for identity in sorted(common, key=lambda one: (mine[one].step, one), reverse=True):
        offer = mine[identity]

        def fetch(identity: str = identity, offer: Offer = offer) -> str:
            try:
                if nodes.leads and identity not in have:
                    _asked("fetch", url, str(directory), f"--name={offer.name}")
            except CheckpointCopyError as error:
                return str(error)
            return ""

        failed = [problem for problem in peers.each_at_length(fetch) if problem]
        if not failed:
            if peers.rank == 0:
                log.warning("%s: fetched the parts of step %d", directory, offer.step)
            return
        why = failed[0]
    if any(all_offers) or any(all_misfits):  # to begin anew is for a person to decide
        raise CheckpointCopyError(
            f"nothing fetched from {plain(str(checkpoints.copies))}: {why}"
        )


def _offers(url: str, peers: Peers, nodes: Nodes) -> tuple[dict[str, Offer], str]:
    """
    What can be fetched for the ranks of this node, by the identity of the checkpoint; and why
    something there cannot, empty: all can.
    """
    listed = json.loads(_asked("copies", url, "--json"))
    offers: dict[str, Offer] = {}
    misfits = [f"{one['name']}: {one['why']}" for one in listed["unusable"]]
    for one in listed["copies"]:
        if one["world_size"] == peers.world_size and set(nodes.ranks) <= set(one["ranks"]):
            offers[one["identity"]] = Offer(one["step"], one["name"])
        else:
            misfits.append(f"{one['name']} is of {one['world_size']} ranks, or of others")
    return offers, next(iter(misfits), "")


def _asked(*words: str) -> str:
    """What a `checkpoint` command printed; empty: there is none of what it was asked for."""
    ended = subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, *words], capture_output=True, text=True, check=False
    )
    lines = ended.stderr.strip().splitlines()
    has_failed = ended.returncode not in {0, NONE_THERE}
    level = logging.INFO if ended.returncode == NONE_THERE else logging.WARNING
    for line in lines[:-1] if has_failed else lines:
        log.log(level, "copies: %s", plain(line))
    if not has_failed:
        return ended.stdout.strip()
    lines = lines or ["it said nothing"]
    raise CheckpointCopyError(f"nothing fetched from {plain(words[1])}: {plain(lines[-1])}")
