"""Kernel events of adapters, the PCIe bus, memory, disks and servers -> how bad, and why. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.findings import Severity
from slurm_resilience.node.kernel_lines import KernelEvent
from slurm_resilience.node.rules.kernel.judgement import Judgement, Seen

_BOOT_S = 60.0
"""Machine checks of before a boot are told in its first seconds."""

_NIC: dict[str, tuple[Severity, str]] = {
    "command-timeout": (Severity.DRAIN, "its firmware does not answer"),
    "health-compromised": (Severity.DRAIN, "its firmware stopped"),
    "overheated": (Severity.WARN, "a cable, module or the adapter is too hot"),
    "cable-error": (Severity.WARN, "a cable or module is faulty"),
    "low-power": (Severity.WARN, "the slot gives too little power"),
    "unplugged": (Severity.OK, "a cable was unplugged"),  # `link-down` decides
    "transmit-timeout": (Severity.WARN, "transmit time-out"),
}
_PCIE: dict[str, tuple[Severity, str]] = {
    "fatal": (Severity.DRAIN_WHEN_IDLE, "the link or the device behind it failed"),
    "nonfatal": (Severity.WARN, "a transfer was lost, the link goes on"),
    "corrected": (Severity.OK, "corrected by the link"),
    "removed": (Severity.WARN, "a slot lost its card while the node runs"),
    "narrow": (Severity.OK, "what the slot can do, said at boot"),
}
_DISK: dict[str, tuple[Severity, str]] = {
    "gone": (Severity.DRAIN_WHEN_IDLE, "the kernel gave it up"),
    "array-failed": (Severity.DRAIN_WHEN_IDLE, "the array lost more disks than it can"),
    "array-degraded": (Severity.WARN, "the array goes on without a disk"),
    "reset": (Severity.WARN, "the disk stopped and was reset"),
    "timeout": (Severity.WARN, "the disk answered too late"),
    "medium": (Severity.WARN, "the disk cannot read what it stored"),
    "target": (Severity.WARN, "the disk refused a command, as many do a trim"),
    "io": (Severity.WARN, "the disk did not do as asked"),
}
_DISK_WEATHER = ("reset", "timeout", "medium", "io")
"""What every disk has once; often, it is going."""
_FILE_SYSTEM: dict[str, tuple[Severity, str]] = {
    "read-only": (Severity.DRAIN, "the kernel lets nothing be written after errors"),
    "shut-down": (Severity.DRAIN, "the file system gave up after errors"),
    "error": (Severity.DRAIN_WHEN_IDLE, "the file system is damaged"),
    "not-mounted": (Severity.WARN, "it could not be mounted; `disk-missing` decides"),
}


def adapters(seen: Seen) -> Iterator[Judgement]:
    """What mlx5 says of its adapter; one time-out is weather."""
    limit = seen.settings.thresholds.repeated
    for event in _of_kind(seen, "nic"):
        severity, why = _NIC[event.what]
        if event.what == "transmit-timeout" and event.per_hour >= limit:
            severity, why = Severity.DRAIN_WHEN_IDLE, _often(event)
        yield Judgement("nic-fault", event, severity, event.text, why)


def links(seen: Seen) -> Iterator[Judgement]:
    """A link that goes down again and again; once is a cable or a switch's restart."""
    limit = seen.settings.thresholds.link_flaps
    for event in _of_kind(seen, "link"):
        often = event.per_hour >= limit
        severity = Severity.WARN if often else Severity.OK
        why = _often(event) if often else "whether it is up decides"
        yield Judgement("link-flapping", event, severity, event.text, why)


def pcie(seen: Seen) -> Iterator[Judgement]:
    """By AER's own word; an error that a device was taken up again after is a warning."""
    for event in _of_kind(seen, "pcie"):
        if event.what == "recovered":
            continue
        severity, why = _PCIE[event.what]
        if event.what == "fatal" and seen.was_after(event, "recovered"):
            severity, why = Severity.WARN, "its driver took the device up again"
        yield Judgement("pcie-error", event, severity, event.text, why)


def memory(seen: Seen) -> Iterator[Judgement]:
    """Corrected errors are what ECC is for; how often they come is judged by their counters."""
    for kind in ("memory", "machine-check"):
        for event in _of_kind(seen, kind):
            severity, why = Severity.DRAIN_WHEN_IDLE, "data in memory was wrong"
            if event.what == "corrected":
                severity, why = Severity.OK, "corrected by ECC"
            elif event.what == "recovered":
                severity, why = Severity.WARN, "the page was taken out before it did harm"
            elif event.what == "deferred":
                severity, why = Severity.WARN, "wrong data that nothing has used yet"
            elif kind == "machine-check" and 0 < event.at_s < _BOOT_S:
                severity, why = Severity.WARN, "told at boot, of before it"
            yield Judgement("host-memory-error", event, severity, event.text, why)


def disks(seen: Seen) -> Iterator[Judgement]:
    """One error is a warning, many of one disk within an hour are a fault."""
    limit = seen.settings.thresholds.disk_errors
    for event in _of_kind(seen, "disk"):
        severity, why = _DISK[event.what]
        if event.what in _DISK_WEATHER and event.per_hour >= limit:
            severity, why = Severity.DRAIN_WHEN_IDLE, _often(event)
        check = "drive-missing" if event.what == "gone" else "disk-error"
        yield Judgement(check, event, severity, event.text, why)


def file_systems(seen: Seen) -> Iterator[Judgement]:
    """A file system that the kernel found damaged; one that it would not mount harms nothing."""
    for event in _of_kind(seen, "file-system"):
        severity, why = _FILE_SYSTEM[event.what]
        if seen.was_after(event, "not-mounted"):
            severity, why = _FILE_SYSTEM["not-mounted"]
        yield Judgement("file-system-error", event, severity, event.text, why)


def file_servers(seen: Seen) -> Iterator[Judgement]:
    """A silent server silences all its nodes at once: never a node's fault by itself."""
    for event in _of_kind(seen, "nfs"):
        if event.what == "answers":
            continue
        if event.what == "locks-lost":
            why = "what held the locks may have lost data"
            yield Judgement("nfs-silent", event, Severity.WARN, event.text, why)
            continue
        back = seen.was_after(event, "answers")
        severity = Severity.OK if back else Severity.WARN
        why = "settled: it answered after it" if back else "has not answered since"
        yield Judgement("nfs-silent", event, severity, event.text, why)


def killed(seen: Seen) -> Iterator[Judgement]:
    """Information: a job asked for more memory than it has."""
    for event in _of_kind(seen, "oom-kill"):
        yield Judgement(
            "oom-kill", event, Severity.OK, event.text, "the job's own want of memory"
        )


def _often(event: KernelEvent) -> str:
    return f"{event.per_hour} times within an hour"


def _of_kind(seen: Seen, kind: str) -> tuple[KernelEvent, ...]:
    return tuple(event for event in seen.events if event.kind == kind)
