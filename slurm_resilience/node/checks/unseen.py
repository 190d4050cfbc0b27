"""The checks of what could not be seen."""

from slurm_resilience.node.checks.check import Check

UNSEEN_CHECKS: dict[str, Check] = {
    "probe-hung": Check(
        probe="any",
        meaning="a probe gave no answer in its time",
        rule="no answer in its time: unknown, never more",
        why="a probe that hangs may be the fault, or the file server's",
        heals="itself",
    ),
    "unread": Check(
        probe="any",
        meaning="something could not be read",
        rule="could not be read: unknown, never more",
        why="absence of evidence stays visible and drains nothing",
        heals="itself",
    ),
}
