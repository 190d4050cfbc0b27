"""Facts and settings -> findings. Pure. One rule, one fault; the rule's name is the check's id."""

import msgspec

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.driver import DRIVER_RULES
from slurm_resilience.node.rules.fabric import FABRIC_RULES
from slurm_resilience.node.rules.gpu import GPU_RULES
from slurm_resilience.node.rules.host import HOST_RULES
from slurm_resilience.node.rules.kernel import KERNEL_RULES
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.rules.unseen import UNSEEN_RULES
from slurm_resilience.node.settings import NodeSettings

RULES: tuple[Rule, ...] = (
    *DRIVER_RULES, *GPU_RULES, *KERNEL_RULES, *FABRIC_RULES, *HOST_RULES, *UNSEEN_RULES,
)  # fmt: skip


def judge(facts: NodeFacts, settings: NodeSettings) -> tuple[Finding, ...]:
    """Every finding about a node, worst first, with the severities that *settings* ask for."""
    findings = (finding for rule in RULES for finding in rule(facts, settings))
    kept = (_as_set(finding, settings) for finding in findings)
    return tuple(sorted(filter(None, kept), key=lambda finding: finding.severity, reverse=True))


def _as_set(finding: Finding, settings: NodeSettings) -> Finding | None:
    level = settings.checks.get(finding.check)
    if level is None or finding.severity is Severity.OK:
        return finding
    if level == "off":
        return None
    return msgspec.structs.replace(finding, severity=Severity(level))
