"""Facts -> how their counters went since boot. Pure."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from slurm_resilience.node.facts import GpuFacts, NodeFacts
from slurm_resilience.node.facts.trends import Trend

WORKING_PERCENT = 50
"""From this utilization on a GPU is at work, so that its clocks and its bus should be too."""
SOFTWARE_POWER_CAP = 0x4
"""Clock event reason: the board keeps to its power limit, as it should."""

GPU_COUNTERS = (
    "ecc_corrected", "pcie_replays", "throttle_reasons", "nvlink_crc_errors", "nvlink_recoveries",
)  # fmt: skip
"""Fields of `GpuFacts` whose course rules ask for."""
MEMORY_COUNTERS = ("corrected",)
"""Fields of `MemoryFacts`."""
DRIVE_COUNTERS = ("media_errors",)
"""Fields of `DriveFacts`."""
PROCESS_COUNTERS = ("steps",)
"""Fields of `ProcessFacts`."""
STUCK_COUNTERS = ("switches",)
"""Fields of `StuckProcess`: as long as one has not run, this stands still."""
LOAD_COUNTERS = ("network_bytes",)
"""Fields of `LoadFacts`."""
LINK_COUNTERS = ("is_up", "rate_gbps")
"""Fields of `LinkFacts`. What a port counts itself is followed whole, see `LinkCounters`."""
PCIE_COUNTERS = ("width", "corrected", "nonfatal", "fatal")
"""Fields of `PcieFacts`."""

MOST_CHANGES = 64
"""The oldest go first: a value that changes at each reading is then known for five hours or so."""
WINDOW_S = 86_400.0
"""How far back a trend reaches."""


def follow(earlier: Iterable[Trend], facts: NodeFacts, now_s: float) -> tuple[Trend, ...]:
    """
    The trends after one more reading, at *now_s* seconds since boot.

    What was not read this time keeps what it had: a value that is missing once is no change.
    """
    trends = {(one.subject, one.counter): one for one in earlier if one.until_s <= now_s}
    for subject, counter, value in readings(facts):
        before = trends.get((subject, counter))
        trends[subject, counter] = (
            _next(before, now_s, value)
            if before
            else Trend(subject, counter, ((now_s, value),), now_s)
        )
    return tuple(one for one in trends.values() if not _is_past(one, facts, now_s))


def _is_past(trend: Trend, facts: NodeFacts, now_s: float) -> bool:
    """A process that is stuck no longer is not waited for."""
    return (
        trend.counter in STUCK_COUNTERS
        and facts.processes is not None
        and trend.until_s < now_s
    )


def readings(facts: NodeFacts) -> Iterator[tuple[str, str, float]]:
    """(subject, counter, value) of all that has a course."""
    for gpu in facts.gpus or ():
        yield from (
            (name_of(gpu), counter, float(value))
            for counter in (*GPU_COUNTERS, *_OF_SEVERAL)
            if (value := value_of(gpu, counter)) is not None
        )
    for link in facts.links or ():
        yield from _of(link, link.name, LINK_COUNTERS)
    for port in facts.link_counters:
        yield from (
            (port.name, counter, float(value)) for counter, value in port.values.items()
        )
    for device in facts.pcie:
        yield from _of(device, device.address, PCIE_COUNTERS)
    for drive in facts.drives or ():
        yield from _of(drive, drive.name, DRIVE_COUNTERS)
    for of_node, counters in (
        (facts.memory, MEMORY_COUNTERS),
        (facts.processes, PROCESS_COUNTERS),
        (facts.load, LOAD_COUNTERS),
    ):
        if of_node:
            yield from _of(of_node, "node", counters)
    for process in facts.processes.stuck if facts.processes else ():
        yield from _of(process, f"pid{process.pid}", STUCK_COUNTERS)


def value_of(gpu: GpuFacts, counter: str) -> float | None:
    """What is followed of a GPU under that name; None where it was not read, or is none now."""
    derived = _OF_SEVERAL.get(counter)
    value: float | None = derived(gpu) if derived else getattr(gpu, counter)
    return value


def _generations_lost(gpu: GpuFacts) -> int | None:
    if not _is_working(gpu) or gpu.pcie_generation is None:
        return None  # idle, the link rests at the first
    return max(0, (gpu.pcie_generation_max or 0) - gpu.pcie_generation)


def _clock_percent(gpu: GpuFacts) -> int | None:
    capped = (gpu.throttle_reasons or 0) & SOFTWARE_POWER_CAP
    if not _is_working(gpu) or capped or gpu.clock_mhz is None or not gpu.clock_max_mhz:
        return None
    return gpu.clock_mhz * 100 // gpu.clock_max_mhz


def _memory_of_nobody(gpu: GpuFacts) -> int | None:
    if gpu.memory_used_mib is None or gpu.processes is None:
        return None
    return 0 if gpu.processes else gpu.memory_used_mib


def _is_working(gpu: GpuFacts) -> bool:
    return (gpu.utilization_percent or 0) >= WORKING_PERCENT


_OF_SEVERAL: dict[str, Callable[[GpuFacts], int | None]] = {
    "pcie_generations_lost": _generations_lost,
    "working_clock_percent": _clock_percent,
    "memory_without_process_mib": _memory_of_nobody,
}
"""
What several fields of a GPU make together: generations below the best of its PCIe link, at work; the
SMs' clock against its greatest, at work and with power to spare; memory in use though no process
uses it, 0 where one does.
"""


def name_of(gpu: GpuFacts) -> str:
    """The subject under which a GPU's values are followed."""
    return gpu.uuid or f"gpu{gpu.index}"


def _of(
    values: msgspec.Struct, subject: str, names: tuple[str, ...]
) -> Iterator[tuple[str, str, float]]:
    for name in names:
        value = getattr(values, name)
        if value is not None:
            yield subject, name, float(value)


def _next(trend: Trend, now_s: float, value: float) -> Trend:
    changes = trend.changes
    if value != trend.value:
        changes = (*changes, (now_s, value))
    # The last one before the window says what it was when the window began.
    recent = [place for place, (at, _) in enumerate(changes) if at > now_s - WINDOW_S]
    first = max(0, (recent[0] if recent else len(changes)) - 1)
    return msgspec.structs.replace(
        trend, changes=changes[first:][-MOST_CHANGES:], until_s=now_s
    )
