"""Rules over kernel events. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.kernel_lines import KernelEvent, normalised_pci
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings
from slurm_resilience.node.xid import (
    OFF_THE_BUS,
    RECOVERY_CHANGED,
    REMAP_RECORDED,
    advice_of,
    severity_of,
)

_NIC: dict[str, tuple[Severity, str]] = {
    "command-timeout": (Severity.DRAIN, "its firmware does not answer"),
    "health-compromised": (Severity.DRAIN, "its firmware stopped"),
    "overheated": (Severity.WARN, "a cable or module is too hot"),
    "low-power": (Severity.WARN, "the slot gives too little power"),
    "unplugged": (Severity.OK, "a cable was unplugged"),  # `link-down` decides
    "transmit-timeout": (Severity.WARN, "transmit time-out"),
}


def xid(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """By NVIDIA's action, unless what else is known of the GPU settles it."""
    events = _since_driver_load(facts)
    codes = {(event.pci, event.code) for event in events if event.kind == "xid"}
    announced = {event.pci: event for event in events if event.code == RECOVERY_CHANGED}
    for event in events:
        if event.kind != "xid" or event.code is None:
            continue
        if event.code == RECOVERY_CHANGED and announced[event.pci] is not event:
            continue  # a later one took its place
        severity = severity_of(event)
        if event.caused_by is not None and (event.pci, event.caused_by) in codes:
            severity = Severity.OK  # the cause has a line of its own
        if event.code == REMAP_RECORDED and _nothing_pending(facts, event.pci):
            severity = Severity.OK  # a reset has been
        level = settings.xids.get(event.code)
        if level == "off":
            continue
        detail = f"Xid {event.code} {event.text} ({advice_of(event.code)})"
        yield _of(facts, event, "xid", Severity(level) if level else severity, detail)


def sxid(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """By the word in the line: lists of codes have called Non-fatal ones fatal."""
    for event in _since_driver_load(facts):
        if event.kind == "sxid":
            severity = Severity.DRAIN if event.fatal else Severity.WARN
            yield _of(facts, event, "sxid", severity, f"SXid {event.code} {event.text}")


def gpu_fell_off_bus(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """A GPU may go without an Xid; where one follows, it is the same fault."""
    events = _since_driver_load(facts)
    told = {event.pci for event in events if event.code == OFF_THE_BUS and event.kind == "xid"}
    for event in events:
        if event.kind == "gpu-lost" and event.pci not in told:
            yield _of(facts, event, "gpu-fell-off-bus", Severity.DRAIN, event.text)


def nic_fault(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """What mlx5 says of its adapter."""
    for event in facts.kernel_events or ():
        if event.kind != "nic":
            continue
        severity, what = _NIC[event.what]
        if event.what == "transmit-timeout" and event.count >= settings.thresholds.repeated:
            severity = Severity.DRAIN_WHEN_IDLE
        yield _of(facts, event, "nic-fault", severity, f"{what}: {event.text}")


def hung_task(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """After a GPU error it points at the driver; otherwise at storage, mostly."""
    events = facts.kernel_events or ()
    if any(event.kind in {"xid", "gpu-lost"} for event in events):
        for event in events:
            if event.kind == "hung-task":
                detail = f"{event.text}, after a GPU error"
                yield Finding("hung-task", Severity.WARN, event.process or "node", detail)


def driver_hung(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Two witnesses: NVML gives no answer, and the kernel sees processes stuck."""
    stuck = any(event.kind == "hung-task" for event in facts.kernel_events or ())
    if stuck and "nvml" in facts.hung:
        detail = "NVML gives no answer and processes are stuck in the kernel"
        yield Finding("driver-hung", Severity.DRAIN_WHEN_IDLE, "node", detail)


KERNEL_RULES: tuple[Rule, ...] = (
    xid, sxid, gpu_fell_off_bus, nic_fault, hung_task, driver_hung,
)  # fmt: skip


def _since_driver_load(facts: NodeFacts) -> tuple[KernelEvent, ...]:
    # Loading the driver resets every GPU: what was reported before is settled.
    events = facts.kernel_events or ()
    loads = [place for place, event in enumerate(events) if event.kind == "driver-loaded"]
    return events[loads[-1] + 1 :] if loads else events


def _nothing_pending(facts: NodeFacts, pci: str | None) -> bool:
    for gpu in facts.gpus or ():
        if gpu.pci and normalised_pci(gpu.pci) == pci:
            pending = gpu.retired_pending if gpu.remap_pending is None else gpu.remap_pending
            return pending is False
    return False


def _of(
    facts: NodeFacts, event: KernelEvent, check: str, severity: Severity, detail: str
) -> Finding:
    index = next(
        (gpu.index for gpu in facts.gpus or () if gpu.pci and gpu.pci == event.pci), None
    )
    subject = event.pci or "node" if index is None else f"gpu{index}"
    times = f", {event.count} times" if event.count > 1 else ""
    return Finding(
        check, severity, subject, f"{detail}{times}", gpu=index, sequence=event.sequence
    )
