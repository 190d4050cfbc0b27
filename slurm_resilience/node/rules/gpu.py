"""Rules over single GPUs. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import NOT_SUPPORTED, GpuFacts, NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

_RECOVERY: dict[int, tuple[Severity, str]] = {
    1: (Severity.DRAIN_WHEN_IDLE, "reset the GPU"),
    2: (Severity.DRAIN, "reboot the node"),
    3: (Severity.DRAIN_WHEN_IDLE, "drain its peers, then reset"),
    4: (Severity.DRAIN_WHEN_IDLE, "drain and reset the GPU"),
    5: (Severity.WARN, "recover the IMEX domain"),
    6: (Severity.DRAIN_WHEN_IDLE, "reset the bus"),
    7: (Severity.DRAIN, "reboot the system"),
}
_JUDGED = (
    "ecc_uncorrected", "remap_pending", "remap_failed", "retired_pending", "recovery_action",
    "temperature_c", "uuid", "pci",
)  # fmt: skip


def gpu_lost(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Lost by name, without a handle, or with an error to every single question."""
    for gpu in facts.gpus or ():
        refusals = {why for why in gpu.unread.values() if why != NOT_SUPPORTED}
        silent = refusals and all(getattr(gpu, field) is None for field in _JUDGED)
        if gpu.lost:
            yield _of(gpu, "gpu-lost", Severity.DRAIN, "has fallen off the bus")
        elif silent:
            detail = f"answers nothing: {', '.join(sorted(refusals))}"
            yield _of(gpu, "gpu-lost", Severity.DRAIN, detail)


def reset_required(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """NVML's own word for a GPU that refuses work."""
    for gpu in facts.gpus or ():
        if gpu.reset_required:
            yield _of(gpu, "reset-required", Severity.DRAIN_WHEN_IDLE, "needs a reset")


def recovery_action(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """What the driver asks for; 0 is nothing."""
    for gpu in facts.gpus or ():
        if gpu.recovery_action:
            unlisted = (Severity.WARN, f"action {gpu.recovery_action}")
            severity, what = _RECOVERY.get(gpu.recovery_action, unlisted)
            yield _of(gpu, "recovery-action", severity, f"the driver asks: {what}")


def ecc_uncorrected(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Volatile only: the aggregate would drain again after every repair."""
    for gpu in facts.gpus or ():
        if gpu.ecc_uncorrected:
            errors = "error" if gpu.ecc_uncorrected == 1 else "errors"
            detail = f"{gpu.ecc_uncorrected} uncorrected memory {errors} since the last reset"
            yield _of(gpu, "ecc-uncorrected", Severity.DRAIN_WHEN_IDLE, detail)


def row_remap_pending(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Mapped out by a reset, which has to wait for the job."""
    for gpu in facts.gpus or ():
        if gpu.remap_pending:
            yield _of(gpu, "row-remap-pending", Severity.DRAIN_WHEN_IDLE, "needs a reset")


def row_remap_failed(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """No reset repairs it."""
    for gpu in facts.gpus or ():
        if gpu.remap_failed:
            yield _of(gpu, "row-remap-failed", Severity.DRAIN, "needs replacing")


def retired_pages_pending(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Cards before Ampere retire pages instead of rows."""
    for gpu in facts.gpus or ():
        if gpu.retired_pending:
            yield _of(gpu, "retired-pages-pending", Severity.DRAIN_WHEN_IDLE, "needs a reset")


def _of(gpu: GpuFacts, check: str, severity: Severity, detail: str) -> Finding:
    name = f" ({gpu.uuid})" if gpu.uuid else ""
    return Finding(check, severity, f"gpu{gpu.index}", detail + name, gpu=gpu.index)


GPU_RULES: tuple[Rule, ...] = (
    gpu_lost, reset_required, recovery_action, ecc_uncorrected,
    row_remap_pending, row_remap_failed, retired_pages_pending,
)  # fmt: skip
