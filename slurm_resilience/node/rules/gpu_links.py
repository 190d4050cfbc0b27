"""Rules over what joins a GPU to the rest: NVLink, the NVSwitch fabric, PCIe. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import GpuFacts, NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.of_gpu import finding, rate_of, trend_of
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

_NO_FABRIC, _NOT_STARTED, _IN_PROGRESS = 0, 1, 2
_FABRIC = {_NOT_STARTED: "has not started", _IN_PROGRESS: "is not done"}
_FABRIC_HEALTH = {0: "less bandwidth", 2: "a route recovers", 4: "a route is unhealthy"}
"""Place in NVML's mask -> what 1 in its two bits says; 2 says no, 0 not supported."""
_GIGATRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""PCIe generation -> thousands of millions of bits a second and lane."""
_BIT_ERRORS = 1e-12
"""The rate that the PCIe specification allows."""


def nvlink_down(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Against the expectation, else against what was up earlier in this boot: cards have none."""
    for gpu in facts.gpus or ():
        up, seen = gpu.nvlinks_up, gpu.nvlinks_seen or 0
        if up is None or gpu.mig:  # in MIG mode there are no NVLinks
            continue
        wanted = settings.expect.nvlinks
        if wanted is not None and up < wanted:
            detail = f"{up} of {wanted} NVLinks are up"
            yield finding(gpu, "nvlink-down", Severity.DRAIN_WHEN_IDLE, detail)
        elif wanted is None and up < seen:
            severity = Severity.WARN if up else Severity.DRAIN_WHEN_IDLE
            detail = f"{up} NVLinks are up, {seen} were earlier in this boot"
            yield finding(gpu, "nvlink-down", severity, detail)


def nvlink_errors(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Lifetime counts say nothing; how fast they grow does."""
    want = settings.thresholds
    for gpu in facts.gpus or ():
        crc = rate_of(facts, gpu, "nvlink_crc_errors", want.rate_window_s)
        recovering = trend_of(facts, gpu, "nvlink_recoveries")
        recovered = recovering.added(want.rate_window_s) if recovering else 0
        told = [f"{crc:.0f} CRC errors/s"] if crc >= want.nvlink_crc_per_s else []
        if recovered:
            told.append(f"{recovered:.0f} times a link had to recover")
        if told:
            detail = f"NVLink: {', '.join(told)}"
            yield finding(gpu, "nvlink-errors", Severity.WARN, detail)


def fabric_not_ready(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """
    On boards with NVSwitch no CUDA program starts before the fabric manager is through.

    A virtual machine with one GPU of such a board may never have one and need none, so it counts
    as a fault only where NVLinks are expected.
    """
    for gpu in facts.gpus or ():
        severity = Severity.DRAIN_WHEN_IDLE if settings.expect.nvlinks else Severity.WARN
        if gpu.fabric_state in {None, _NO_FABRIC} or gpu.mig:
            continue
        if gpu.fabric_state in _FABRIC:
            detail = f"the fabric manager {_FABRIC[gpu.fabric_state]} with it"
        elif gpu.fabric_status:
            detail = f"the fabric manager came to NVML error {gpu.fabric_status}"
        elif told := _unwell(gpu):
            detail, severity = f"NVLink fabric: {told}", Severity.WARN
        else:
            continue
        yield finding(gpu, "fabric-not-ready", severity, detail)


def _unwell(gpu: GpuFacts) -> str:
    mask = gpu.fabric_health or 0
    return ", ".join(what for place, what in _FABRIC_HEALTH.items() if mask >> place & 3 == 1)


def gpu_pcie_narrow(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Lanes do not rest when the GPU does, unlike the speed."""
    for gpu in facts.gpus or ():
        slot = settings.expect.pcie.get(gpu.pci or "")
        width, wanted = gpu.pcie_width, (slot and slot.width) or settings.expect.pcie_width
        if width is None:
            continue
        if wanted is not None and width < wanted:
            detail = f"PCIe x{width}, x{wanted} is expected"
            yield finding(gpu, "gpu-pcie-narrow", Severity.DRAIN_WHEN_IDLE, detail)
        elif wanted is None and width < (gpu.pcie_width_max or 0):
            detail = f"PCIe x{width} of x{gpu.pcie_width_max}"
            yield finding(gpu, "gpu-pcie-narrow", Severity.WARN, detail)


def gpu_pcie_slow(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """At work and lasting: an idle GPU's link rests at the first generation."""
    for gpu in facts.gpus or ():
        trend = trend_of(facts, gpu, "pcie_generations_lost")
        if trend and trend.lasted_s() >= settings.thresholds.sustained_s:
            detail = (
                f"PCIe generation {gpu.pcie_generation} of {gpu.pcie_generation_max}"
                f" at work, for {trend.lasted_s():.0f} s"
            )
            yield finding(gpu, "gpu-pcie-slow", Severity.WARN, detail)


def gpu_pcie_replays(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """More than the bit errors that the specification allows for this link."""
    for gpu in facts.gpus or ():
        speed = _GIGATRANSFERS.get(gpu.pcie_generation_max or 0)
        if speed is None or not gpu.pcie_width:
            continue
        allowed = _BIT_ERRORS * speed * 1e9 * gpu.pcie_width * 60
        rate = rate_of(facts, gpu, "pcie_replays", settings.thresholds.rate_window_s) * 60
        if rate > allowed:
            detail = f"{rate:.0f} PCIe replays/min, {allowed:.0f} are normal"
            yield finding(gpu, "gpu-pcie-replays", Severity.WARN, detail)


GPU_LINK_RULES: tuple[Rule, ...] = (
    nvlink_down, nvlink_errors, fabric_not_ready,
    gpu_pcie_narrow, gpu_pcie_slow, gpu_pcie_replays,
)  # fmt: skip
