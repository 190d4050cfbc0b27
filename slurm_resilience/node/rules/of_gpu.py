"""What the rules over single GPUs share: a finding about one, and how one of its values went. Pure."""

from itertools import pairwise

from slurm_resilience.node.facts import GpuFacts, NodeFacts, Trend
from slurm_resilience.node.facts.trends import LEAST_S
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.trending import name_of, value_of


def finding(gpu: GpuFacts, check: str, severity: Severity, detail: str) -> Finding:
    """A finding about *gpu* alone, with the name that is printed on no board but stays."""
    name = f" ({gpu.uuid})" if gpu.uuid else ""
    return Finding(check, severity, f"gpu{gpu.index}", detail + name, gpu=gpu.index)


def trend_of(facts: NodeFacts, gpu: GpuFacts, counter: str) -> Trend | None:
    """How *counter* of *gpu* went; None where nothing is known of it, or it was not read now."""
    if value_of(gpu, counter) is None:
        return None
    return facts.trend(name_of(gpu), counter)


def rate_of(facts: NodeFacts, gpu: GpuFacts, counter: str, over_s: float) -> float:
    """Growth of *counter* a second over the last *over_s*; 0 as long as that cannot be told."""
    trend = trend_of(facts, gpu, counter)
    return (trend.per_second(over_s) if trend else None) or 0.0


def rates_since_reset(
    facts: NodeFacts, gpu: GpuFacts, counter: str, over_s: float
) -> tuple[float, float]:
    """
    The rate of *counter* over the last *over_s*, and the greatest such rate there was.

    Since it last began anew, as far as readings reach back.
    """
    trend = trend_of(facts, gpu, counter)
    if trend is None:
        return 0.0, 0.0
    changes = trend.changes
    falls = [place for place, (one, two) in enumerate(pairwise(changes), 1) if two[1] < one[1]]
    since = changes[falls[-1] :] if falls else changes

    def rate_until(end: float) -> float:
        grown = sum(b - a for (_, a), (at, b) in pairwise(since) if end - over_s < at <= end)
        return grown / max(min(over_s, end - since[0][0]), LEAST_S)

    rates = [rate_until(end) for end in (*(at for at, _ in since[1:]), trend.until_s)]
    return rates[-1], max(rates)
