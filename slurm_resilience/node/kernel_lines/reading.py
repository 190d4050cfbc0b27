"""
Lines in their order -> events, each told once with a count.

A storm of one Xid per channel, the three lines of one message, a watchdog's line and what follows
it: one event each. What comes after a driver load or a GPU reset is another event than before it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from slurm_resilience.node.kernel_lines.event import KernelEvent
from slurm_resilience.node.kernel_lines.lines import parse_line
from slurm_resilience.node.kernel_lines.network import MORE_OF_A_TIMEOUT
from slurm_resilience.node.kernel_lines.nvidia import LOST, RECOVERY_CHANGED, announced

MOST_EVENTS = 4096
"""Different ones; the oldest go first."""
_DRIVER = "NVRM: "
_LINES_OF_A_MESSAGE = 3
_ONE_TIMEOUT_S = 5.0
"""A driver tells of its queues one by one, all within this."""
_HOUR_S = 3600.0
_MOST_TIMES = 64


class Reading:
    """What a log has told so far. Its size does not grow with the log's."""

    def __init__(self) -> None:
        self._events: dict[tuple[object, ...], KernelEvent] = {}
        self._times: dict[tuple[object, ...], tuple[float, ...]] = {}
        self._resets: dict[str | None, int] = {}
        self._places: dict[str, str] = {}
        self._announced: tuple[str, int] = ("", 0)

    @property
    def events(self) -> tuple[KernelEvent, ...]:
        """All so far, by the last time that each was told, oldest first."""
        return tuple(self._events.values())

    def add(self, line: str, sequence: int, at_s: float) -> KernelEvent | None:
        """Read one more line; the event that it tells of, as it stands now."""
        event = parse_line(line) or self._end_of_message(line)
        if event is None:
            return None
        if event.kind == "gpu-named" and event.uuid and event.pci:
            self._places[event.uuid] = event.pci
        if event.kind == "gpu-reset" and event.uuid in self._places:
            event = msgspec.structs.replace(event, pci=self._places[event.uuid])
        joined = self._join(event, sequence, at_s)
        if event.kind == "driver-loaded":
            self._resets[None] = self._resets.get(None, 0) + 1
        elif event.pci and (event.kind == "gpu-reset" or is_recovery(event)):
            self._resets[event.pci] = self._resets.get(event.pci, 0) + 1
        return joined

    def _end_of_message(self, line: str) -> KernelEvent | None:
        """A log file has the lines of one message apart; the kernel's own record together."""
        if not line.startswith(_DRIVER):
            return None
        gpu, left = announced(line), self._announced[1]
        if gpu and line.startswith("NVRM: The NVIDIA GPU"):
            self._announced = (gpu, _LINES_OF_A_MESSAGE)
            return None
        place = self._announced[0] if left > 0 else ""
        self._announced = (place, left - 1)
        if not line.startswith(_DRIVER + LOST):
            return None
        self._announced = ("", 0)
        return KernelEvent("gpu-lost", f"GPU has {LOST}", pci=place or None)

    def _join(self, event: KernelEvent, sequence: int, at_s: float) -> KernelEvent:
        key = (*_sameness(event), self._resets.get(None, 0), self._resets.get(event.pci, 0))
        before = self._events.pop(key, None)  # the latest goes last
        times = self._times.pop(key, ())
        if before and _is_more_of(before, event, at_s):
            count = before.count
        else:
            count = before.count + 1 if before else 1
            times = (*times, at_s)[-_MOST_TIMES:]
        recent = sum(1 for one in times if at_s - one < _HOUR_S)
        joined = msgspec.structs.replace(
            before or event,
            pci=before.pci or event.pci if before else event.pci,
            count=count,
            per_hour=max(recent, before.per_hour if before else 1),
            first=before.first if before else sequence,
            sequence=sequence,
            at_s=at_s,
        )
        self._events[key] = joined
        self._times[key] = times
        if len(self._events) > MOST_EVENTS:
            oldest = next(iter(self._events))
            del self._events[oldest], self._times[oldest]
        return joined


def parse_records(records: Iterable[Sequence[object]]) -> tuple[KernelEvent, ...]:
    """Events from records of (sequence number, microseconds since boot, text), oldest first."""
    reading = Reading()
    for sequence, microseconds, text in records:
        reading.add(str(text), int(str(sequence)), int(str(microseconds)) / 1e6)
    return reading.events


def is_recovery(event: KernelEvent) -> bool:
    """
    The driver says that a GPU needs nothing any more: "changed from … to 0x0 (None)".

    It is the only line that the driver itself writes about a GPU reset.
    """
    return event.code == RECOVERY_CHANGED and "to 0x0 (" in event.text


def _is_more_of(before: KernelEvent, event: KernelEvent, at_s: float) -> bool:
    is_more = event.what == "transmit-timeout" and event.text.startswith(MORE_OF_A_TIMEOUT)
    return is_more and at_s - before.at_s < _ONE_TIMEOUT_S


def _sameness(event: KernelEvent) -> tuple[object, ...]:
    # It announces a state, so each text counts for itself.
    own_text = event.text if event.code == RECOVERY_CHANGED else ""
    # A watchdog names the interface only, its driver the adapter too.
    pci = None if event.what == "transmit-timeout" and event.device else event.pci
    return (
        event.kind, pci, event.device, event.uuid, event.code, event.what, event.fatal,
        event.injected, event.caused_by,
        event.process if event.kind in {"hung-task", "oom-kill"} else "", own_text,
    )  # fmt: skip
