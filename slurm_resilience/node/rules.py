"""Facts and settings -> findings. Pure. One rule, one fault; the rule's name is the check's id."""

from collections.abc import Callable, Iterator

import msgspec

from slurm_resilience.node.facts import NOT_SUPPORTED, RESET_REQUIRED, GpuFacts, NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.kernel_rules import KERNEL_RULES
from slurm_resilience.node.settings import NodeSettings

Rule = Callable[[NodeFacts, NodeSettings], Iterator[Finding]]

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


# ── NVML as a whole ─────────────────────────────────────────────────────────────────────────


def driver_library_mismatch(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """The library of a newer driver over the kernel module of an older one: no CUDA starts."""
    if facts.nvml_error == "LibRmVersionMismatch":
        detail = "driver and NVML library are of different versions; reboot"
        yield Finding("driver-library-mismatch", Severity.DRAIN, "node", detail)


def driver_not_loaded(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Only where GPUs are expected: a node without any has no driver either."""
    if facts.nvml_error == "DriverNotLoaded" and settings.expect.gpus:
        detail = f"{settings.expect.gpus} GPUs expected, the driver is not loaded"
        yield Finding("driver-not-loaded", Severity.DRAIN, "node", detail)


def nvml_unavailable(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Other failures say nothing of the GPUs: NVML fails so inside a container, for example."""
    if facts.nvml_error in {None, "LibRmVersionMismatch"} or settings.expect.gpus == 0:
        return
    absent = facts.nvml_error in {"LibraryNotFound", "DriverNotLoaded"}
    if absent and settings.expect.gpus is None:
        yield Finding("nvml-unavailable", Severity.OK, "node", "no NVIDIA driver on this node")
    elif facts.nvml_error != "DriverNotLoaded":
        detail = f"NVML: {facts.nvml_error}"
        yield Finding("nvml-unavailable", Severity.UNKNOWN, "node", detail)


def gpu_missing(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Against the expectation: NVML itself never misses a GPU that it does not see."""
    expected = settings.expect.gpus
    if facts.gpus is not None and expected is not None and len(facts.gpus) < expected:
        detail = f"{len(facts.gpus)} of {expected} GPUs"
        yield Finding("gpu-missing", Severity.DRAIN, "node", detail)


# ── one GPU ─────────────────────────────────────────────────────────────────────────────────


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


# ── the rest of the node ────────────────────────────────────────────────────────────────────


def link_down(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Expected links only: most adapters have ports that nobody uses."""
    for link in facts.links or ():
        if link.name not in settings.expect.links:
            continue
        if not link.present:
            yield Finding("link-down", Severity.DRAIN, link.name, "no such device")
        elif link.state in {"INIT", "ARMED"} and link.physical_state == "LinkUp":
            # The cable is fine: the fabric's subnet manager has not come by.
            detail = f"{link.state}: waits for the subnet manager"
            yield Finding("link-down", Severity.WARN, link.name, detail)
        elif link.state is not None and link.state not in {"ACTIVE", "UP"}:
            detail = (
                f"{link.state} ({link.physical_state})" if link.physical_state else link.state
            )
            yield Finding("link-down", Severity.DRAIN, link.name, detail)


def link_slow(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A link that came up with fewer lanes or at a lower speed slows the whole job."""
    for link in facts.links or ():
        want = settings.expect.links.get(link.name)
        if want and want.rate_gbps and link.rate_gbps and link.rate_gbps < want.rate_gbps:
            detail = f"{link.rate_gbps:g} of {want.rate_gbps:g} Gb/s"
            yield Finding("link-slow", Severity.DRAIN_WHEN_IDLE, link.name, detail)


def disk_missing(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A job would otherwise write beneath the mount point, into the root file system."""
    for disk in facts.disks:
        want = settings.expect.disks.get(disk.path)
        if not disk.present:
            yield Finding("disk-missing", Severity.DRAIN, disk.path, "does not exist")
        elif want and want.mounted and disk.mounted is False:
            yield Finding("disk-missing", Severity.DRAIN, disk.path, "nothing is mounted there")


def disk_read_only(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """The kernel remounts a file system read-only after errors."""
    for disk in facts.disks:
        want = settings.expect.disks.get(disk.path)
        if disk.read_only and (want is None or want.writable):
            yield Finding("disk-read-only", Severity.DRAIN, disk.path, "cannot be written")


def disk_full(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """When idle: what fills it may be a running job's, and goes with it."""
    limits = settings.thresholds
    for disk in facts.disks:
        shares = {"space": disk.used_percent, "inodes": disk.inodes_used_percent}
        for what, share in shares.items():
            if share is None or share < limits.disk_warn_percent:
                continue
            full = share >= limits.disk_full_percent
            severity = Severity.DRAIN_WHEN_IDLE if full else Severity.WARN
            yield Finding("disk-full", severity, disk.path, f"{share} % of {what} used")


def memory_missing(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A DIMM that was disabled at boot shows only as less memory."""
    expected = settings.expect.memory_mib
    total = facts.memory.total_mib if facts.memory else None
    if expected and total is not None and total < expected:
        detail = f"{total} of {expected} MiB"
        yield Finding("memory-missing", Severity.DRAIN_WHEN_IDLE, "node", detail)


def memory_uncorrected(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Counted by the kernel since boot."""
    if facts.memory and facts.memory.uncorrected:
        detail = f"{facts.memory.uncorrected} uncorrected host memory errors since boot"
        yield Finding("memory-uncorrected", Severity.DRAIN_WHEN_IDLE, "node", detail)


# ── what could not be seen ──────────────────────────────────────────────────────────────────


def probe_hung(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """A probe that hangs may be the fault, or the file server's; it decides nothing alone."""
    for probe in facts.hung:
        yield Finding("probe-hung", Severity.UNKNOWN, probe, "no answer in its time")


def unread(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Absence of evidence stays visible."""
    for probe, why in facts.unread.items():
        yield Finding("unread", Severity.UNKNOWN, probe, why)
    for gpu in facts.gpus or ():
        told = {NOT_SUPPORTED, RESET_REQUIRED}  # no news, and a rule of its own
        failed = {field: why for field, why in gpu.unread.items() if why not in told}
        if failed and not gpu.lost:
            detail = "; ".join(f"{field}: {why}" for field, why in failed.items())
            yield Finding("unread", Severity.UNKNOWN, f"gpu{gpu.index}", detail, gpu=gpu.index)
    for link in facts.links or ():
        if link.name in settings.expect.links and "state" in link.unread:
            yield Finding("unread", Severity.UNKNOWN, link.name, link.unread["state"])


RULES: tuple[Rule, ...] = (
    driver_library_mismatch, driver_not_loaded, nvml_unavailable, gpu_missing,
    gpu_lost, reset_required, recovery_action, ecc_uncorrected,
    row_remap_pending, row_remap_failed, retired_pages_pending,
    *KERNEL_RULES,
    link_down, link_slow, disk_missing, disk_read_only, disk_full,
    memory_missing, memory_uncorrected,
    probe_hung, unread,
)  # fmt: skip
