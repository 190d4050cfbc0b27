"""Facts and settings -> findings. Pure. One rule, one fault, named after its check; `kernel_log` has many."""

from collections.abc import Iterable

import msgspec

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.dcgm import DCGM_RULES
from slurm_resilience.node.rules.driver import DRIVER_RULES
from slurm_resilience.node.rules.gpu import GPU_RULES
from slurm_resilience.node.rules.gpu_links import GPU_LINK_RULES
from slurm_resilience.node.rules.gpu_memory import GPU_MEMORY_RULES
from slurm_resilience.node.rules.gpu_running import GPU_RUNNING_RULES
from slurm_resilience.node.rules.host import HOST_RULES
from slurm_resilience.node.rules.kernel import KERNEL_RULES
from slurm_resilience.node.rules.memory import MEMORY_RULES
from slurm_resilience.node.rules.network import NETWORK_RULES
from slurm_resilience.node.rules.pcie import PCIE_RULES
from slurm_resilience.node.rules.power import POWER_RULES
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.rules.storage import STORAGE_RULES
from slurm_resilience.node.rules.unseen import UNSEEN_RULES
from slurm_resilience.node.settings import NodeSettings

RULES: tuple[Rule, ...] = (
    *DRIVER_RULES, *GPU_RULES, *GPU_MEMORY_RULES, *GPU_LINK_RULES, *GPU_RUNNING_RULES, *KERNEL_RULES, *NETWORK_RULES, *PCIE_RULES, *STORAGE_RULES,
    *MEMORY_RULES, *HOST_RULES, *POWER_RULES, *DCGM_RULES, *UNSEEN_RULES,
)  # fmt: skip


def judge(facts: NodeFacts, settings: NodeSettings) -> tuple[Finding, ...]:
    """Every finding about a node, worst first, with the severities that *settings* ask for."""
    findings = (finding for rule in RULES for finding in rule(facts, settings))
    return as_set(findings, settings)


def as_set(findings: Iterable[Finding], settings: NodeSettings) -> tuple[Finding, ...]:
    """Findings, worst first, with the severities that *settings* ask for now."""
    kept = (_as_set(finding, settings) for finding in findings)
    return tuple(sorted(filter(None, kept), key=lambda finding: finding.severity, reverse=True))


def _as_set(finding: Finding, settings: NodeSettings) -> Finding | None:
    level = settings.checks.get(finding.check)
    if level is None or finding.severity is Severity.OK:
        return finding
    if level == "off":
        return None
    return msgspec.structs.replace(finding, severity=Severity(level))
