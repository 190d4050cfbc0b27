"""Carry a decision about a node out: looks first, may be repeated, and never over somebody else."""

from slurm_resilience.errors import SlurmError
from slurm_resilience.node.policy.reason import is_ours
from slurm_resilience.node.policy.standing import Decision, Drain, Keep, Standing
from slurm_resilience.slurm.door import Slurm
from slurm_resilience.slurm.values import Node

_RESTARTING = frozenset({
    "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "REBOOT_ISSUED",
    "REBOOT_REQUESTED",
})  # fmt: skip


def look(slurm: Slurm, node: str) -> Standing:
    """How *node* stands, and those beside it; `SlurmError` where Slurm does not say."""
    nodes = slurm.nodes()
    here = next((one for one in nodes if one.name == node), None)
    if here is None:
        raise SlurmError(f"{node}: Slurm knows no such node")
    partitions = set(here.partitions)
    neighbours = [one for one in nodes if one is here or partitions & set(one.partitions)]
    ours = sorted((one for one in neighbours if _is_held(one)), key=_when)
    return Standing(
        here.is_drained,
        here.reason,
        restarting=bool(here.flags & _RESTARTING),
        neighbours=len(neighbours),
        ours=tuple(one.name for one in ours),
    )


def apply(decision: Decision, slurm: Slurm) -> bool:
    """
    Whether anything was changed.

    Raises `SlurmError` where Slurm does not answer or refuses; nothing was changed then.
    """
    if isinstance(decision, Keep):
        return False
    standing = look(slurm, decision.node)
    if standing.restarting or (standing.reason and not is_ours(standing.reason)):
        return False
    if isinstance(decision, Drain):
        if standing.drained and standing.reason in {"", decision.reason}:
            return False
        slurm.drain(decision.node, reason=decision.reason)
        return True
    # The boot that it was drained in stands in the reason, so this compares it too.
    if not (standing.drained and standing.reason == decision.reason):
        return False
    slurm.resume(decision.node)
    return True


def _is_held(node: Node) -> bool:
    return node.is_drained and is_ours(node.reason)


def _when(node: Node) -> tuple[float, str]:
    """By name within a second, which is as fine as Slurm tells it: all nodes see one order."""
    return node.reason_at or 0.0, node.name
