"""The checks that DCGM makes for us."""

from slurm_resilience.node.checks.check import Check

DCGM_CHECKS: dict[str, Check] = {
    "dcgm-health": Check(
        probe="dcgm",
        meaning="DCGM's health watch reports an incident",
        rule="Failure: drain when idle; Warning: warn. Asked where `dcgm.health` says so",
        why=(
            "DCGM's own limits. Its pass adds nothing: it has passed with links down "
            "(DCGM issue 198)"
        ),
        heals="reset",
        slow=True,
        of_gpus=True,
    ),
    "dcgm-diag": Check(
        probe="dcgm",
        meaning="DCGM's quick diagnostic failed a test",
        rule=(
            "Fail: drain when idle; Warn, or what DCGM calls a matter of configuration: warn. "
            "Asked where `dcgm.diag` says so"
        ),
        why=(
            "dcgmi diag -r 1, of either JSON form; a form that is not known is `unread`, never "
            "a pass. Only a person gives the node back: the health check may not run it"
        ),
        heals="repair",
        slow=True,
        of_gpus=True,
    ),
}
