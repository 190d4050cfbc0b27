"""Rules over what DCGM says. Its pass adds nothing: our own findings stand. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import DcgmFacts, NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings


def dcgm_health(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """What its watch saw since it was last asked."""
    for one in facts.dcgm:
        if one.source == "health":
            yield _finding("dcgm-health", one)


def dcgm_diag(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """What its quick diagnostic found."""
    for one in facts.dcgm:
        if one.source == "diag":
            yield _finding("dcgm-diag", one)


def _finding(check: str, one: DcgmFacts) -> Finding:
    is_fault = one.status == "fail" and not one.configuration
    severity = Severity.DRAIN_WHEN_IDLE if is_fault else Severity.WARN
    # DCGM counts GPUs in an order of its own.
    subject = f"dcgm-{one.entity}" if one.entity else "node"
    return Finding(check, severity, subject, f"{one.test}: {one.says or one.status}")


DCGM_RULES: tuple[Rule, ...] = (dcgm_health, dcgm_diag)
