"""What the rules over single GPUs share: a finding about one, and how one of its values went. Pure."""

from slurm_resilience.node.facts import GpuFacts, NodeFacts, Trend
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.trending import name_of


def finding(gpu: GpuFacts, check: str, severity: Severity, detail: str) -> Finding:
    """A finding about *gpu* alone, with the name that is printed on no board but stays."""
    name = f" ({gpu.uuid})" if gpu.uuid else ""
    return Finding(check, severity, f"gpu{gpu.index}", detail + name, gpu=gpu.index)


def trend_of(facts: NodeFacts, gpu: GpuFacts, counter: str) -> Trend | None:
    """How *counter* of *gpu* went; None where nothing is known of it, or it was not read now."""
    if getattr(gpu, counter) is None:
        return None
    return facts.trend(name_of(gpu), counter)


def rate_of(facts: NodeFacts, gpu: GpuFacts, counter: str, over_s: float) -> float:
    """Growth of *counter* a second over the last *over_s*; 0 as long as that cannot be told."""
    trend = trend_of(facts, gpu, counter)
    return (trend.per_second(over_s) or 0.0) if trend else 0.0
