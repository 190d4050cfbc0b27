"""The checks of network links."""

from slurm_resilience.node.checks.check import Check

FABRIC_CHECKS: dict[str, Check] = {
    "link-down": Check(
        probe="network",
        meaning="a link named in `expect.links` is not up",
        rule="expected and not up: drain; up but waiting for the subnet manager: warn",
        why="most adapters have ports that nobody uses, so expected ones only",
        heals="itself",
    ),
    "link-slow": Check(
        probe="network",
        meaning="a link is up at less than its expected rate",
        rule="below its expected rate: drain when idle",
        why="a link that lost lanes slows every rank of the job",
        heals="itself",
    ),
}
