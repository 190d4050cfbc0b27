"""Kernel events of GPUs and NVSwitches -> how bad, and why. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.findings import Severity
from slurm_resilience.node.kernel_lines import KernelEvent
from slurm_resilience.node.rules.kernel.judgement import Judgement, Seen
from slurm_resilience.node.xid import (
    CANCELLED_BY,
    DOUBLE_BIT,
    NO_RESET_HELPS,
    OFF_THE_BUS,
    RECOVERY_CHANGED,
    REMAP_RECORDED,
    advice_of,
    severity_of,
)


def xids(seen: Seen) -> Iterator[Judgement]:
    """By NVIDIA's action, unless what else is known of the GPU settles it."""
    announced = {
        event.pci: event for event in seen.events if event.code == RECOVERY_CHANGED
    }  # the last of each GPU
    for event in seen.events:
        if event.kind != "xid" or event.code is None:
            continue
        if event.code == RECOVERY_CHANGED and announced[event.pci] is not event:
            continue  # a later one took its place
        level = seen.settings.xids.get(event.code)
        if level == "off":
            continue
        because = "an injected error, a test" if event.injected else _because(event, seen)
        severity = Severity.OK if because else severity_of(event)
        if level and not because:
            severity = Severity(level)
        what = f"Xid {event.code} {event.text}"
        yield Judgement("xid", event, severity, what, because or advice_of(event))


def _because(event: KernelEvent, seen: Seen) -> str:
    """Why an Xid counts no longer; empty where it counts."""
    code = event.code
    settled = seen.settled_by(event)
    if settled and (code not in NO_RESET_HELPS or event.sequence < seen.loaded):
        return f"settled: {settled}"
    if event.caused_by is not None and any(
        other.pci == event.pci and other.code == event.caused_by
        for other in seen.events
        if other.kind == "xid"
    ):
        return f"the line of Xid {event.caused_by} decides"
    for other in seen.events:
        cancels = CANCELLED_BY.get(code or 0) == other.code and other.kind == "xid"
        if cancels and other.pci == event.pci and other.sequence > event.sequence:
            return f"settled: Xid {other.code} came after it"
    if code == REMAP_RECORDED and seen.pending(event.pci) is False:
        return "settled: no row waits for a reset"
    if (
        code in DOUBLE_BIT
        and seen.pending(event.pci) is False
        and seen.uncorrected(event.pci) == 0
    ):
        return "settled: no uncorrected error since the last reset"
    return ""


def sxids(seen: Seen) -> Iterator[Judgement]:
    """By the word in the line: lists of codes have called Non-fatal ones fatal."""
    for event in seen.events:
        if event.kind != "sxid":
            continue
        settled = seen.settled_by(event)
        severity = Severity.DRAIN if event.fatal else Severity.WARN
        word = "the switch says fatal" if event.fatal else "the switch does not say fatal"
        yield Judgement(
            "sxid",
            event,
            Severity.OK if settled else severity,
            f"SXid {event.code} {event.text}",
            f"settled: {settled}" if settled else word,
        )


def lost(seen: Seen) -> Iterator[Judgement]:
    """A GPU may go without an Xid; where one stands beside it, it is the same fault."""
    told = {event.pci for event in seen.standing("xid") if event.code == OFF_THE_BUS}
    for event in seen.events:
        if event.kind != "gpu-lost" or event.pci in told:
            continue
        settled = seen.settled_by(event)
        yield Judgement(
            "gpu-fell-off-bus",
            event,
            Severity.OK if settled else Severity.DRAIN,
            event.text,
            f"settled: {settled}" if settled else "reboot, then look at its seating",
        )


def not_started(seen: Seen) -> Iterator[Judgement]:
    """Said each time that somebody asks for the GPU; NVML's count decides."""
    for event in seen.events:
        if event.kind == "gpu-init-failed":
            settled = seen.settled_by(event)
            yield Judgement(
                "gpu-init-failed",
                event,
                Severity.OK if settled else Severity.WARN,
                event.text,
                f"settled: {settled}" if settled else "the driver cannot start the GPU",
            )


def hung_tasks(seen: Seen) -> Iterator[Judgement]:
    """After a GPU error it points at the driver; otherwise at storage, mostly."""
    after_gpu = any(event.kind in {"xid", "gpu-lost"} for event in seen.events)
    for event in seen.events:
        if event.kind == "hung-task":
            severity = Severity.WARN if after_gpu else Severity.OK
            why = "the driver may hang" if after_gpu else "without a GPU error: storage, mostly"
            what = f"{event.text}, after a GPU error" if after_gpu else event.text
            yield Judgement("hung-task", event, severity, what, why)
