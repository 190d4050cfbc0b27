"""Rules over the node's memory. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.facts.trends import HOUR_S
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

KERNELS_SHARE = 0.03
"""Of what is built in, at most, the kernel and firmware keep: MemTotal is without it."""


def memory_missing(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A DIMM that was disabled at boot shows only as less memory."""
    expected = settings.expect.memory_mib
    total = facts.memory.total_mib if facts.memory else None
    if expected and total is not None and total < expected:
        detail = f"{total} of {expected} MiB"
        yield Finding("memory-missing", Severity.DRAIN_WHEN_IDLE, "node", detail)


def memory_small(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Advice for who bought it: nothing is broken."""
    factor = settings.thresholds.memory_per_gpu_memory
    total = facts.memory.total_mib if facts.memory else None
    sizes = [gpu.memory_total_mib for gpu in facts.gpus or ()]
    known = [size for size in sizes if size is not None]
    if total is None or not known or len(known) < len(sizes):
        return
    wanted = factor * sum(known)
    if total < wanted * (1 - KERNELS_SHARE):
        detail = f"{total} MiB, of {wanted:.0f} for {sum(known)} MiB of GPU memory"
        yield Finding("memory-small", Severity.WARN, "node", detail)


def memory_uncorrected(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Counted by the kernel since boot."""
    if facts.memory and facts.memory.uncorrected:
        where = _at({one.label for one in facts.memory.dimms if one.uncorrected})
        detail = f"{facts.memory.uncorrected} uncorrected host memory errors since boot{where}"
        yield Finding("memory-uncorrected", Severity.DRAIN_WHEN_IDLE, "node", detail)


def memory_corrected_rate(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """What was counted before the first reading says nothing of now."""
    trend = facts.trend("node", "corrected")
    grown = int(trend.added(HOUR_S)) if trend else 0
    if grown >= settings.thresholds.memory_corrected_per_hour:
        dimms = facts.memory.dimms if facts.memory else ()
        most = max((one.corrected for one in dimms), default=0)
        where = _at({one.label for one in dimms if one.corrected == most})
        detail = f"{grown} corrected host memory errors within the last hour{where}"
        yield Finding("memory-corrected-rate", Severity.WARN, "node", detail)


def _at(dimms: set[str]) -> str:
    return f", at {', '.join(sorted(dimms))}" if dimms else ""


def memory_poisoned(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """The kernel does so for errors that it met, and ahead of those that it expects."""
    if facts.memory and facts.memory.poisoned_kib:
        detail = f"{facts.memory.poisoned_kib} KiB taken out of use"
        yield Finding("memory-poisoned", Severity.WARN, "node", detail)


def machine_check(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Corrected events come without an exception: these are the others, that it lived through."""
    if facts.memory and facts.memory.machine_checks:
        detail = f"{facts.memory.machine_checks} machine check exceptions since boot"
        yield Finding("machine-check", Severity.WARN, "node", detail)


MEMORY_RULES: tuple[Rule, ...] = (
    memory_missing, memory_small, memory_uncorrected, memory_corrected_rate, memory_poisoned,
    machine_check,
)  # fmt: skip
