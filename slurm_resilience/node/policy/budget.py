"""
How many nodes we drain at once. Pure.

What looks like half a cluster going bad in one hour is most often one switch, one driver or one wrong
setting; a cluster without nodes is worse than a cluster with bad ones (NVSentinel breaks its circuit
at half of the nodes, too).
"""

from slurm_resilience.node.policy.standing import Keep, Situation, Standing
from slurm_resilience.node.settings import Drains


def is_limited(drains: Drains) -> bool:
    """Whether there can be one drain too many."""
    return drains.most_percent < 100  # noqa: PLR2004 - per cent


def most_drained(standing: Standing, drains: Drains) -> int:
    """How many neighbours we may hold drained; one at least, or a small partition had none."""
    return max(1, standing.neighbours * drains.most_percent // 100)


def is_over(node: str, standing: Standing, drains: Drains) -> bool:
    """
    Whether our drain of *node*, which stands, is one too many.

    Of several that drained at the same moment each asks this of itself. All see the same order,
    so they agree who goes back.
    """
    return node in standing.ours[most_drained(standing, drains) :]


def over_budget(node: str, standing: Standing, drains: Drains, wanted: str) -> Keep:
    """An unfit node that has to work on; *wanted*: the reason it would have."""
    others = len([name for name in standing.ours if name != node])
    return Keep(
        node,
        f"UNFIT, AND STILL IN USE: {others} of the {standing.neighbours} nodes in its partitions"
        f" are drained by slurm-resilience, node.drains.most_percent allows"
        f" {most_drained(standing, drains)}; look for one cause of all; it would be: {wanted}",
        tolerated=True,
    )


def has_room(now: Situation, standing: Standing) -> bool:
    """Whether this node may be drained, too; one that is drained already is no more than before."""
    return standing.drained or len(standing.ours) < most_drained(standing, now.settings.drains)
