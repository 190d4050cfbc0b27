"""Rules over GPUs that are gone, or that the driver itself complains of. Pure."""

from collections.abc import Iterator

import msgspec

from slurm_resilience.node.checks.check import Heals
from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.of_gpu import finding
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

_RECOVERY: dict[int, tuple[Severity, str, Heals]] = {
    1: (Severity.DRAIN_WHEN_IDLE, "GPU_RESET", "reset"),
    2: (Severity.DRAIN, "NODE_REBOOT", "reboot"),
    3: (Severity.DRAIN_WHEN_IDLE, "DRAIN_P2P, drain its peers first", "reset"),
    4: (Severity.DRAIN_WHEN_IDLE, "DRAIN_AND_RESET", "reset"),
    5: (Severity.WARN, "RECOVER_IMEX_DOMAIN", "reset"),
    6: (Severity.DRAIN_WHEN_IDLE, "BUS_RESET", "reset"),
    7: (Severity.DRAIN, "SYSTEM_REBOOT", "reboot"),
}
"""NVML_GPU_RECOVERY_ACTION_… -> how bad, its name, what helps."""
_JUDGED = (
    "ecc_uncorrected", "remap_pending", "remap_failed", "retired_pending", "recovery_action",
    "temperature_c", "uuid", "pci",
)  # fmt: skip


_OF_LOST = {"Unknown", "IrqIssue", "InsufficientPower", "Timeout"}
"""NVML's other errors for a GPU that cannot be reached. A missing permission is not one of them."""


def gpu_lost(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Lost by name, without a handle, or with such an error to every single question."""
    for gpu in facts.gpus or ():
        refusals = _OF_LOST.intersection(gpu.unread.values())
        # Its name may be known from earlier in this boot: then it still stands under unread.
        silent = "handle" in gpu.unread or all(
            field in gpu.unread or getattr(gpu, field) is None for field in _JUDGED
        )
        if gpu.lost:
            yield finding(gpu, "gpu-lost", Severity.DRAIN, "has fallen off the bus")
        elif refusals and silent and not gpu.reset_required:
            detail = f"answers nothing: {', '.join(sorted(refusals))}"
            yield finding(gpu, "gpu-lost", Severity.DRAIN, detail)


def reset_required(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """NVML's own word for a GPU that refuses work."""
    for gpu in facts.gpus or ():
        if gpu.reset_required:
            yield finding(gpu, "reset-required", Severity.DRAIN_WHEN_IDLE, "needs a reset")


def recovery_action(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """What the driver asks for; 0 is nothing."""
    for gpu in facts.gpus or ():
        if gpu.recovery_action:
            unlisted = (Severity.WARN, f"action {gpu.recovery_action}", "reset")
            severity, what, heals = _RECOVERY.get(gpu.recovery_action, unlisted)
            found = finding(gpu, "recovery-action", severity, f"the driver asks for {what}")
            yield msgspec.structs.replace(found, heals=heals)


def inforom_corrupted(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """The GPU computes all the same; what it remembers of its errors is lost."""
    for gpu in facts.gpus or ():
        if gpu.inforom_valid is False:
            yield finding(gpu, "inforom-corrupted", Severity.WARN, "its infoROM is corrupted")


GPU_RULES: tuple[Rule, ...] = (gpu_lost, reset_required, recovery_action, inforom_corrupted)
