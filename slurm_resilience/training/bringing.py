"""The directory becomes ours: made or found, claimed, and filled from copies elsewhere where it lacks all."""

import json
import logging
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.checkpoint_files.owner import Claim
from slurm_resilience.checkpoint_files.thinning import part_folder
from slurm_resilience.errors import (
    CheckpointCopyError,
    CheckpointInUseError,
    CheckpointPlaceError,
    ResilienceError,
)
from slurm_resilience.plain import plain
from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.claiming import Hold, claimed
from slurm_resilience.training.copier import COMMAND
from slurm_resilience.training.earlier import holds_some, refuse_loss
from slurm_resilience.training.nodes import Nodes, made
from slurm_resilience.training.parts import held, misfit
from slurm_resilience.training.peers import Peers

log = logging.getLogger(__name__)

NONE_THERE = 1


KINDS = {kind.__name__: kind for kind in (CheckpointInUseError, CheckpointPlaceError)}
"""What a command that fails may have met, beside copies that are no good."""


class Offer(NamedTuple):
    """A copy of this node's part of a checkpoint."""

    step: int
    name: str


class Offers(NamedTuple):
    """What a node can fetch."""

    parts: dict[str, Offer]
    """By the identity of the checkpoint."""
    misfit: str
    """Why something there cannot be fetched; empty: all can."""


def opened(checkpoints: Checkpoints, peers: Peers, before: int) -> Hold:
    """
    The directory, made where it is missing, claimed, and filled where copies elsewhere have what it
    lacks.

    Every rank has to come here; *before* is the step that an earlier attempt had saved, -1: none.
    Raises `CheckpointPlaceError` where nothing of that is there, `CheckpointCopyError` where copies
    cannot be asked for or none is sound, else as `made` and `claimed`.
    """
    if not checkpoints.copies:  # then nothing is made in place of what is gone
        _refuse_loss(checkpoints, peers, before)
    nodes = made(checkpoints.path, peers, per_node=checkpoints.per_node)
    hold = claimed(checkpoints.path, peers, nodes)
    if checkpoints.copies:
        try:
            if nodes.are_one:
                _bring_back(checkpoints, peers, hold)
            else:
                _bring_parts_back(checkpoints, peers, hold)
            _refuse_loss(checkpoints, peers, before)
        except ResilienceError:
            hold.release()
            raise
    return hold


def _bring_back(checkpoints: Checkpoints, peers: Peers, hold: Hold) -> None:
    """Fetch the newest copy into the directory where that holds no checkpoint at all."""
    directory = checkpoints.path

    def fetch() -> None:
        if hold.claim is None or found(directory):
            return
        if path := _fetched(str(checkpoints.copies), directory, hold.claim):
            log.warning("%s held no checkpoint: fetched %s", directory, path)

    peers.each_at_length(fetch)


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


def _bring_parts_back(checkpoints: Checkpoints, peers: Peers, hold: Hold) -> None:
    """
    Fetch the newest copy of which there are all parts, where the nodes hold no checkpoint together.

    A node that has its part of it fetches nothing.
    """
    directory, nodes = checkpoints.path, hold.nodes
    url = f"{checkpoints.copies}/{folder(nodes)}"
    here = held(directory, peers, nodes)
    if here.whole:
        return
    by_rank = peers.each(lambda: _offers(url, peers, nodes) if nodes.leads else None)
    all_offers = [offers for offers in by_rank if offers]
    mine = all_offers[nodes.groups.index(nodes.ranks)].parts
    common = set.intersection(*(set(offers.parts) for offers in all_offers))
    have = {
        one.manifest.identity
        for one, _ in here.parted
        if one.manifest and not misfit(one.manifest, peers, nodes)
    }
    misfits = [offers.misfit for offers in all_offers if offers.misfit]
    why = next(iter(misfits), "no checkpoint has copies of all its parts there")
    for identity in sorted(common, key=lambda one: (mine[one].step, one), reverse=True):
        offer = mine[identity]

        def fetch(identity: str = identity, offer: Offer = offer) -> str:
            try:
                if hold.claim and identity not in have:
                    _fetched(url, directory, hold.claim, f"--name={offer.name}")
            except CheckpointCopyError as error:
                return str(error)
            return ""

        failed = [problem for problem in peers.each_at_length(fetch) if problem]
        if not failed:
            if peers.rank == 0:
                log.warning("%s: fetched the parts of step %d", directory, offer.step)
            return
        why = failed[0]
    if misfits or any(offers.parts for offers in all_offers):
        # To begin anew is for a person to decide.
        raise CheckpointCopyError(
            f"nothing fetched from {plain(str(checkpoints.copies))}: {why}"
        )


def _offers(url: str, peers: Peers, nodes: Nodes) -> Offers:
    """What can be fetched for the ranks of this node."""
    listed = _asked("copies", url)
    offers: dict[str, Offer] = {}
    misfits = [f"{one['name']}: {one['why']}" for one in listed["unusable"]]
    for one in listed["copies"]:
        if one["world_size"] == peers.world_size and set(nodes.ranks) <= set(one["ranks"]):
            offers[one["identity"]] = Offer(one["step"], one["name"])
        else:
            misfits.append(f"{one['name']} is of {one['world_size']} ranks, or of others")
    return Offers(offers, next(iter(misfits), ""))


def _fetched(url: str, directory: Path, claim: Claim, *options: str) -> str:
    """Where what was fetched lies now; empty: there is no copy."""
    mine = f"--owner={claim.me.token}"
    return str(_asked("fetch", url, str(directory), mine, *options)["path"] or "")


def _asked(what: str, url: str, *words: str) -> dict[str, Any]:
    """The document that a `checkpoint` command printed; its error, where it has failed."""
    ended = subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, what, url, *words, "--json"], capture_output=True, text=True, check=False
    )
    lines = ended.stderr.strip().splitlines()
    has_failed = ended.returncode not in {0, NONE_THERE}
    level = logging.INFO if ended.returncode == NONE_THERE else logging.WARNING
    for line in lines[:-1] if has_failed else lines:
        log.log(level, "copies: %s", plain(line))
    document: dict[str, Any] = json.loads(ended.stdout or "{}")
    if has_failed:
        kind = KINDS.get(document.get("error", ""), CheckpointCopyError)
        lines = lines or ["it said nothing"]
        raise kind(f"nothing fetched from {plain(url)}: {plain(lines[-1])}")
    return document
