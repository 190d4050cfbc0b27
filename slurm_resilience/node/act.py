"""Carry a decision about a node out: looks first, may be repeated, and never over somebody else."""

from slurm_resilience.errors import SlurmError
from slurm_resilience.node.policy import Decision, Drain, Keep, Standing
from slurm_resilience.node.reason import is_ours
from slurm_resilience.slurm.door import Slurm

_BUSY = frozenset({"ALLOCATED", "MIXED"})


def look(slurm: Slurm, node: str) -> Standing:
    """How *node* stands; `SlurmError` where Slurm does not say."""
    for found in slurm.nodes([node]):
        if found.name == node:
            busy = found.state in _BUSY or "COMPLETING" in found.flags
            return Standing(found.is_drained, busy, found.reason)
    raise SlurmError(f"{node}: Slurm knows no such node")


def apply(decision: Decision, slurm: Slurm) -> bool:
    """
    Whether anything was changed.

    Raises `SlurmError` where Slurm does not answer or refuses; nothing was changed then.
    """
    if isinstance(decision, Keep):
        return False
    standing = look(slurm, decision.node)
    if standing.reason and not is_ours(standing.reason):
        return False
    if isinstance(decision, Drain):
        if standing.drained and standing.reason in {"", decision.reason}:
            return False
        slurm.drain(decision.node, reason=decision.reason)
        return True
    if not (standing.drained and standing.reason == decision.reason):
        return False
    slurm.resume(decision.node)
    return True
