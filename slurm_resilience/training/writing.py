"""One save in the thread beside the training: from frozen tensors to a checkpoint that reads back."""

import logging
import os
import time
from pathlib import Path
from typing import NamedTuple

import torch

from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.errors import CheckpointError
from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.claiming import Hold
from slurm_resilience.training.drafting import Draft, Drafting, Written
from slurm_resilience.training.following import Following
from slurm_resilience.training.peers import Failure, Peers
from slurm_resilience.training.planning import Plan
from slurm_resilience.training.sound import poison_in
from slurm_resilience.training.state import Values
from slurm_resilience.training.writer import (
    Standing,
    clear,
    complete,
    give_name,
    open_unfinished,
    read_back,
    write_part,
)

log = logging.getLogger(__name__)


class Frozen(NamedTuple):
    """What one rank writes of one step."""

    step: int
    since: float
    """CLOCK_MONOTONIC seconds at which the save began."""
    block: memoryview | Failure
    """The tensors; or why there was no room for them."""
    names: list[str]
    """Of what the tensors are pieces of."""
    views: list[torch.Tensor]
    """The tensors in the block, in the order of their names."""
    plan: Plan
    values: Values
    guarded: frozenset[str]
    poison: str
    """What is wrong with the loss; empty: nothing."""


class Writing:
    """Of one rank, into a claimed directory."""

    def __init__(
        self, checkpoints: Checkpoints, peers: Peers, hold: Hold, unsound: set[Path]
    ) -> None:
        """*unsound*: checkpoints that do not count; those of saves that fail are added."""
        self._directory = checkpoints.path
        self._peers = peers
        self._nodes, self._claim = hold
        self._unsound = unsound
        self._drafting = Drafting(hold.nodes)
        self.following = Following(checkpoints, hold, unsound)

    def write(self, frozen: Frozen) -> Manifest:
        """
        Put it on disk, whole or not at all, and read it back; what the checkpoint is then.

        Every rank has to come here. Raises on all of them where one fails.
        """
        peers, nodes = self._peers, self._nodes
        path = self._directory / directory_name(frozen.step)
        unfinished = nodes.told(peers, lambda: self._open(frozen.step))
        try:
            with Standing(unfinished) as standing:
                mine = peers.tried(lambda: self._write_part(standing, unfinished, frozen))
                draft = peers.dealt(mine, lambda parts: self._drafts(frozen, parts))
                # No part gets its name before all of them are on disk.
                nodes.led(peers, lambda: self._complete(unfinished, draft))
                nodes.led(peers, lambda: self._name(unfinished, draft))
                files = mine.files if isinstance(mine, Written) else {}
                manifest = draft.manifest if nodes.leads else None
                peers.each(lambda: read_back(standing.path, path, files, manifest))
        except Exception as error:
            if nodes.leads:
                self._unsound.add(path)
                clear(unfinished, path, error, self._confirm)
            raise
        if nodes.leads:
            self._unsound.discard(path)
            self.following.begin(draft.manifest)
        return draft.manifest

    def _write_part(self, standing: Standing, unfinished: Path, frozen: Frozen) -> Written:
        if isinstance(frozen.block, Failure):
            raise CheckpointError(f"no host memory to copy to: {frozen.block.text}")
        standing.hold()
        rank = self._peers.rank
        part = write_part(unfinished, rank, frozen.block, frozen.values)
        copies = zip(frozen.names, frozen.views, strict=True)
        return part._replace(poison=frozen.poison or poison_in(copies, frozen.guarded))

    def _open(self, step: int) -> Path:
        self.following.ended()  # or there would be one more checkpoint than has to fit
        if self._claim and self._claim.renew():
            log.error(
                "%s was deleted; made again, without what was saved there", self._directory
            )
        token = self._claim.me.token if self._claim else str(os.getpid())
        return open_unfinished(self._directory, step, token)

    def _drafts(self, frozen: Frozen, written: list[Written]) -> list[Draft]:
        known = Manifest(
            format=1,
            step=frozen.step,
            world_size=self._peers.world_size,
            saved_at=time.time(),
            took_s=round(time.monotonic() - frozen.since, 3),
            job=self._claim.me.job if self._claim else "",
            files={},
            poison=next((part.poison for part in written if part.poison), ""),
        )
        return self._drafting.drafts(known, frozen.plan, written)

    def _complete(self, unfinished: Path, draft: Draft) -> None:
        self._confirm()
        complete(unfinished, draft)

    def _name(self, unfinished: Path, draft: Draft) -> None:
        self._confirm()  # once more: what has the name may be another's by now
        give_name(unfinished, draft.manifest)

    def _confirm(self) -> None:
        if self._claim:
            self._claim.confirm()
