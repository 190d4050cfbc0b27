"""A directory of checkpoints becomes that of this job, on all ranks or on none."""

import os
import platform
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.checkpoint_files.keep import remove_unfinished
from slurm_resilience.checkpoint_files.owner import Claim, owner
from slurm_resilience.errors import ResilienceError
from slurm_resilience.training.nodes import Nodes, usable
from slurm_resilience.training.peers import Failure, Peers


class Hold(NamedTuple):
    """A directory that is ours."""

    nodes: Nodes
    claim: Claim | None
    """Of the rank that leads there; None on the others."""

    def release(self) -> None:
        """Let go of it."""
        if self.claim:
            self.claim.release()

    def give_back(self, peers: Peers) -> None:
        """As if it had never been claimed; every rank has to come here."""
        peers.shared(peers.tried(self.claim.give_back) if self.claim else None)


def claimed(path: Path, peers: Peers, nodes: Nodes) -> Hold:
    """
    Claim the directory.

    Every rank has to come here. Raises on all of them: `CheckpointInUseError` where another job is
    writing there, else as `made`.
    """
    claim = peers.tried(lambda: _claim(path)) if nodes.leads else None
    try:
        peers.shared(claim if isinstance(claim, Failure) else None)
    except ResilienceError:
        if isinstance(claim, Claim):
            claim.release()
        raise
    return Hold(nodes, claim if isinstance(claim, Claim) else None)


def _claim(path: Path) -> Claim:
    with usable(path):
        claim = Claim(path, owner(os.environ, node=platform.node(), pid=os.getpid()))
        try:
            remove_unfinished(path)
        except OSError:
            claim.release()
            raise
    return claim
