"""Rules over how GPUs run: heat, power, clocks, and the modes they are set to. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.host import idle_for_s
from slurm_resilience.node.rules.of_gpu import finding, trend_of
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

_THROTTLED = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""NVML's clock event reasons that mean trouble. Idle (0x1), application clocks (0x2) and the software
power cap (0x4) are how a sound GPU works."""
_HARDWARE = 0x8 | 0x40 | 0x80


def gpu_throttled(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Said at once; a fault only if it lasts, and only where the hardware does it."""
    for gpu in facts.gpus or ():
        reasons = gpu.throttle_reasons or 0
        told = [name for bit, name in _THROTTLED.items() if reasons & bit]
        if not told:
            continue
        trend = trend_of(facts, gpu, "throttle_reasons")
        lasted_s = trend.lasted_s(_HARDWARE) if trend and reasons & _HARDWARE else 0.0
        severity, since = Severity.WARN, ""
        if lasted_s >= settings.thresholds.sustained_s:
            severity, since = Severity.DRAIN_WHEN_IDLE, f" for {lasted_s:.0f} s"
        yield finding(gpu, "gpu-throttled", severity, ", ".join(told) + since)


def gpu_hot(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """By the board's own limit, told as a temperature or as the degrees left to it."""
    for gpu in facts.gpus or ():
        if gpu.temperature_c is None:
            continue
        limit = gpu.temperature_slowdown_c
        if limit is None and gpu.temperature_margin_c is None:
            limit = settings.thresholds.gpu_temperature_c
        if limit is not None and gpu.temperature_c >= limit:
            detail = f"{gpu.temperature_c} °C, its limit is {limit} °C"
        elif limit is None and (gpu.temperature_margin_c or 0) <= 0:
            detail = f"{gpu.temperature_c} °C, which is its limit"
        else:
            continue
        yield finding(gpu, "gpu-hot", Severity.WARN, detail)


def gpu_power_capped(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A limit below the board's own, which slows every rank of a job to this GPU's pace."""
    for gpu in facts.gpus or ():
        wanted = settings.expect.power_limit_w or gpu.power_limit_default_w
        # NVML may round to whole watts on the way.
        if gpu.power_limit_w is not None and wanted and gpu.power_limit_w < wanted - 1:
            detail = f"power limit {gpu.power_limit_w:.0f} W of {wanted:.0f} W"
            yield finding(gpu, "gpu-power-capped", Severity.WARN, detail)


def gpu_clocks_low(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Set low, or low at work with power and cooling to spare."""
    want = settings.thresholds
    for gpu in facts.gpus or ():
        fixed, usual = gpu.application_clock_mhz, gpu.application_clock_default_mhz
        if fixed is not None and usual is not None and fixed < usual:
            detail = f"application clock set to {fixed} MHz, the default is {usual}"
            yield finding(gpu, "gpu-clocks-low", Severity.WARN, detail)
            continue
        trend = trend_of(facts, gpu, "working_clock_percent")
        lasted_s = trend.held_s(lambda it: it < want.gpu_clock_percent) if trend else 0.0
        if lasted_s >= want.sustained_s:
            detail = f"{gpu.clock_mhz} of {gpu.clock_max_mhz} MHz at work, for {lasted_s:.0f} s"
            yield finding(gpu, "gpu-clocks-low", Severity.WARN, detail)


def persistence_off(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Then the driver unloads between jobs, and each job and each hook waits for it."""
    for gpu in facts.gpus or ():
        if gpu.persistence is False:
            detail = "persistence mode is off: the driver starts anew for each job, for seconds"
            yield finding(gpu, "persistence-off", Severity.WARN, detail)


def mig_unexpected(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A GPU that is cut up where whole ones are handed out, or the other way round."""
    wanted = settings.expect.mig
    for gpu in facts.gpus or ():
        if wanted is not None and gpu.mig not in {None, wanted}:
            state = "on" if gpu.mig else "off"
            yield finding(
                gpu, "mig-unexpected", Severity.DRAIN_WHEN_IDLE, f"MIG mode is {state}"
            )


def gpu_memory_in_use(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Memory that no process holds, and that the next job will not get."""
    want = settings.thresholds
    for gpu in facts.gpus or ():
        trend = trend_of(facts, gpu, "memory_without_process_mib")
        lasted_s = trend.held_s(lambda mib: mib > want.gpu_memory_mib) if trend else 0.0
        if lasted_s > 0:
            detail = f"{gpu.memory_used_mib} MiB in use without a process, for {lasted_s:.0f} s"
            yield finding(gpu, "gpu-memory-in-use", Severity.WARN, detail)


def gpu_process_left(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Nobody's job computes: one that was left behind, or somebody who went around Slurm."""
    idle_s = idle_for_s(facts)
    if idle_s < settings.thresholds.idle_s:
        return
    for gpu in facts.gpus or ():
        pids = [str(process.pid) for process in gpu.processes or () if not process.draws]
        if pids:
            noun = "process" if len(pids) == 1 else "processes"
            detail = f"used by {noun} {', '.join(pids)}, and no job for {idle_s:.0f} s"
            yield finding(gpu, "gpu-process-left", Severity.WARN, detail)


GPU_RUNNING_RULES: tuple[Rule, ...] = (
    gpu_throttled, gpu_hot, gpu_power_capped, gpu_clocks_low,
    persistence_off, mig_unexpected, gpu_memory_in_use, gpu_process_left,
)  # fmt: skip
