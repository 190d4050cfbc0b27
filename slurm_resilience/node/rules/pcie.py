"""Rules over the PCIe links of GPUs and network adapters. Pure."""

from collections import defaultdict
from collections.abc import Iterator

from slurm_resilience.node.facts import NodeFacts, PcieFacts
from slurm_resilience.node.facts.trends import HOUR_S
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings


def pcie_gone(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """What lspci shows as `rev ff`."""
    for device in facts.pcie:
        if device.all_ones:
            detail = "every register reads as ones: the device is off the bus"
            yield _of(facts, device, "pcie-gone", Severity.DRAIN, detail)


def pcie_narrow(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """
    Of adapters, against what is expected; else against twins, and against earlier in this boot.

    What a device could do at most says nothing: its slot may be smaller by design. A GPU's link
    is `gpu-pcie-narrow`'s: the driver knows it better.
    """
    adapters = [one for one in facts.pcie if one.kind == "nic" and not one.all_ones]
    twins: dict[str, list[PcieFacts]] = defaultdict(list)
    for device in adapters:
        twins[device.model].append(device)
    for device in adapters:
        want = settings.expect.pcie.get(device.address)
        if want:
            if want.width and device.width and device.width < want.width:
                detail = f"{device.width} of {want.width} lanes"
                yield _of(facts, device, "pcie-narrow", Severity.DRAIN_WHEN_IDLE, detail)
            if want.speed_gts and device.speed_gts and device.speed_gts < want.speed_gts:
                detail = f"{device.speed_gts:g} of {want.speed_gts:g} GT/s"
                yield _of(facts, device, "pcie-narrow", Severity.DRAIN_WHEN_IDLE, detail)
        elif detail := _falls_short(facts, device, twins):
            yield _of(facts, device, "pcie-narrow", Severity.WARN, detail)


def _falls_short(facts: NodeFacts, device: PcieFacts, twins: dict[str, list[PcieFacts]]) -> str:
    alike = twins[device.model]
    width = max((twin.width or 0 for twin in alike), default=0)
    if device.width and device.width < width:
        return f"{device.width} lanes, {width} of an adapter like it in this node"
    speed = max((twin.speed_gts or 0 for twin in alike), default=0)
    if device.speed_gts and device.speed_gts < speed:
        return f"{device.speed_gts:g} GT/s, {speed:g} of an adapter like it in this node"
    trend = facts.trend(device.address, "width")
    before = max((value for _, value in trend.changes), default=0.0) if trend else 0.0
    if device.width and device.width < before:
        return f"{device.width} lanes, {before:g} earlier in this boot"
    return ""


def pcie_error_rate(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Growth within this boot's readings; the kernel log tells of each, as far as it reaches."""
    limit = settings.thresholds.pcie_corrected_per_s
    for device in facts.pcie:
        for counter, severity in (
            ("fatal", Severity.DRAIN_WHEN_IDLE),
            ("nonfatal", Severity.WARN),
        ):
            trend = facts.trend(device.address, counter)
            grown = trend.added(HOUR_S) if trend else 0.0
            if grown:
                detail = f"{grown:g} {counter} PCIe errors within an hour"
                yield _of(facts, device, "pcie-error-rate", severity, detail)
        trend = facts.trend(device.address, "corrected")
        rate = trend.per_second(settings.thresholds.rate_window_s) if trend else None
        if rate is not None and rate >= limit:
            detail = f"{rate:.3g} corrected PCIe errors a second"
            yield _of(facts, device, "pcie-error-rate", Severity.WARN, detail)


PCIE_RULES: tuple[Rule, ...] = (pcie_gone, pcie_narrow, pcie_error_rate)


def _of(
    facts: NodeFacts, device: PcieFacts, check: str, severity: Severity, detail: str
) -> Finding:
    gpu = facts.gpu_at(device.address)
    if gpu is None:
        return Finding(check, severity, device.address, detail)
    return Finding(check, severity, f"gpu{gpu.index}", detail, gpu=gpu.index)
