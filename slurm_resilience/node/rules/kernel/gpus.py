"""Kernel events of GPUs and NVSwitches -> how bad, and why. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.findings import Severity
from slurm_resilience.node.kernel_lines import RECOVERY_CHANGED, KernelEvent
from slurm_resilience.node.rules.kernel.judgement import Judgement, Seen
from slurm_resilience.node.xid import (
    CANCELLED_BY,
    CLEAN_UP,
    DOUBLE_BIT,
    NO_RESET_HELPS,
    OFF_THE_BUS,
    REMAP_RECORDED,
    advice_of,
    heals_of,
    severity_of,
)

_STACK = ("nvidia", "nv-", "nv_", "dcgm", "UVM ")
"""How names of the GPU stack's own processes and kernel threads begin."""
_CLEAN_UP_S = 600.0
"""A clean-up that hangs shows within this: the kernel waits two minutes before it tells of a task."""


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
        heals = None if because or event.caused_by is not None else heals_of(event)
        yield Judgement("xid", event, severity, what, because or advice_of(event), heals)


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
    """After a GPU error that still stands it points at the driver; otherwise at storage, mostly."""
    errors = _errors(seen)
    for event in seen.events:
        if event.kind != "hung-task":
            continue
        if _is_after(errors, event):
            what, why = f"{event.text}, after a GPU error", "the driver may hang"
            yield Judgement("hung-task", event, Severity.WARN, what, why)
        else:
            why = "without a GPU error: storage, mostly"
            yield Judgement("hung-task", event, Severity.OK, event.text, why)


def hung_in_driver(seen: Seen) -> Iterator[KernelEvent]:
    """Stuck tasks that are the GPU stack's own, or that got stuck after a GPU error."""
    errors = _errors(seen)
    for event in seen.events:
        is_own = event.kind == "hung-task" and (event.process or "").startswith(_STACK)
        if is_own or (event.kind == "hung-task" and _is_after(errors, event)):
            yield event


def _errors(seen: Seen) -> list[KernelEvent]:
    """What hangs a driver: errors that still stand, and its clean-up behind a process."""
    judged = (*xids(seen), *lost(seen))
    return [
        one.event
        for one in judged
        if one.severity > Severity.OK
        or (one.event.code == CLEAN_UP and not seen.settled_by(one.event))
    ]


def _is_after(errors: list[KernelEvent], task: KernelEvent) -> bool:
    return any(
        error.sequence < task.sequence
        and (error.code != CLEAN_UP or task.at_s - error.at_s < _CLEAN_UP_S)
        for error in errors
    )
