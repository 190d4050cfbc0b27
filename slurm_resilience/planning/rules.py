"""
The arithmetic of a plan. Pure.

The interval is Daly's: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for
restart dumps", Future Generation Computer Systems 22 (2006) 303; its first term is Young's: J. W.
Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (1974) 530.
"""

import math

import msgspec

from slurm_resilience import lead
from slurm_resilience.planning.facts import Asked, Measured
from slurm_resilience.planning.findings import Plan, Value

GB = 10**9
GIB = 1 << 30
DAY_S = 86400.0

WEIGHT_BYTES = {"mixed": 6.0, "fp32": 4.0, "bf16": 2.0}
"""A parameter; in mixed precision 16 bits to compute with and 32 to add up in."""
STATE_BYTES = {
    "adamw": 8.0, "adam": 8.0, "adamw-8bit": 2.0, "lion": 4.0, "muon": 4.0, "sgd-momentum": 4.0,
    "adafactor": 0.1, "sgd": 0.0,
}  # fmt: skip
"""The optimizer's state of a parameter in 32 bits (8 bits where its name says so)."""
HOST_MEMORY = 1.5
"""Times the memory of all GPUs of a node: staging, data loaders, page cache."""
SHORTEST_TIMEOUT_S, LONGEST_TIMEOUT_S = 600, 1800
"""Between them a collective time-out leaves room for a slow save, and a hang is still seen."""
LONGEST_LEAD_S = 65535
"""Slurm takes no more than 16 bits."""
SHORTEST_INTERVAL_S = 60.0
FEW = 5
"""Fewer failures than these tell little."""


def planned(asked: Asked, measured: Measured) -> Plan:
    """
    The plan.

    What was measured comes before what is worked out, what is asked before what was measured.
    Raises `ValueError`, one line, where something is missing that neither tells.
    """
    size = _size(asked, measured)
    save = _save(asked, measured, size.value)
    blocked = _blocked(asked, size.value)
    cost = _cost(asked, blocked.value, save.value)
    mtbf = _mtbf(asked, measured)
    step_s = asked.step_s or measured.step_s
    interval = _interval(cost.value, save.value, mtbf.value, step_s or 0.0)
    recovery = _recovery(asked, measured, save.value)
    lost_s = interval.value / 2 + save.value + recovery.value
    share = ettr(interval.value, cost.value, lost_s, mtbf.value)
    gpus = asked.nodes * asked.gpus_per_node
    told = (
        "2 saves and 2 steps" if step_s else "2 saves; say --step-s for steps of many seconds"
    )
    plan = Plan(
        checkpoint_bytes=size,
        save_s=save,
        blocked_s=blocked,
        cost_s=cost,
        mtbf_s=mtbf,
        interval_s=interval,
        interval_steps=(
            Value(max(1, math.floor(interval.value / step_s)), f"steps of {step_s:.3g} s")
            if step_s
            else None
        ),
        recovery_s=recovery,
        lost_per_failure_s=Value(lost_s, "half an interval, the save under way, recovery"),
        lost_gpu_hours_per_day=Value((1 - share) * gpus * 24, counted(gpus, "GPU")),
        ettr=Value(share, "1 - costs / interval - lost / MTBF"),
        signal_lead_s=Value(lead.of_signal_s(save.value, step_s or 0.0), told),
        collective_timeout_s=Value(
            _timeout_s(save.value, step_s or 0.0),
            f"{told}, {SHORTEST_TIMEOUT_S} at least",
        ),
        host_memory_bytes=Value(
            HOST_MEMORY * asked.gpus_per_node * asked.gpu_memory_gib * GIB,
            f"{HOST_MEMORY} x {counted(asked.gpus_per_node, 'GPU')} of {asked.gpu_memory_gib:g} GiB",
        ),
        disk_bytes=Value(
            (asked.keep + 1) * size.value, f"keep={asked.keep} and one being written"
        ),
    )
    return _warned(plan, asked, measured)


def _warned(plan: Plan, asked: Asked, measured: Measured) -> Plan:
    """*plan* with what a person should know of it."""
    warnings = list(measured.notes)
    staged = plan.checkpoint_bytes.value / asked.nodes
    if plan.interval_s.value > plan.mtbf_s.value:
        warnings.append("failures come faster than saves: a faster disk, or fewer nodes")
    elif plan.ettr.value < 0.5:  # noqa: PLR2004 - half
        warnings.append("less than half of the time brings the training forward")
    if plan.collective_timeout_s.value > LONGEST_TIMEOUT_S:
        warnings.append(
            f"a time-out of more than {LONGEST_TIMEOUT_S} s hides a hang: a faster disk is better"
        )
    if plan.signal_lead_s.value > LONGEST_LEAD_S:
        warnings.append(f"Slurm takes no lead of more than {LONGEST_LEAD_S} s")
    if staged > plan.host_memory_bytes.value / 2:
        warnings.append(
            f"a save stages {staged / GIB:.0f} GiB on each node: more than half of its memory"
        )
    if 0 < measured.failures < FEW and asked.mtbf_s is None:
        failures = counted(measured.failures, "failure")
        warnings.append(f"an MTBF of {failures} is a guess; --mtbf says better")
    return msgspec.structs.replace(plan, warnings=tuple(warnings))


def counted(number: int, what: str) -> str:
    """So many of *what*, as people say it."""
    return f"{number} {what}{'s' * (number != 1)}"


def bytes_per_parameter(optimizer: str, precision: str) -> float:
    """What a checkpoint holds of each parameter: weights and the optimizer's state."""
    # In bf16 alone the optimizer's state has 16 bits too.
    shrink = 0.5 if precision == "bf16" and optimizer != "adamw-8bit" else 1.0
    return WEIGHT_BYTES[precision] + STATE_BYTES[optimizer] * shrink


def best_interval_s(cost_s: float, mtbf_s: float) -> float:
    """Daly's, for saves that make the training *cost_s* later each."""
    if cost_s >= 2 * mtbf_s:
        return mtbf_s
    share = cost_s / (2 * mtbf_s)
    return math.sqrt(2 * cost_s * mtbf_s) * (1 + math.sqrt(share) / 3 + share / 9) - cost_s


def ettr(interval_s: float, cost_s: float, lost_s: float, mtbf_s: float) -> float:
    """
    Effective training time ratio.

    Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters",
    arXiv 2410.21680, first order: each failure loses *lost_s*, each save *cost_s*.
    """
    return max(0.0, 1 - cost_s / (interval_s + cost_s) - lost_s / mtbf_s)


def _size(asked: Asked, measured: Measured) -> Value:
    if asked.parameters is not None:
        each = bytes_per_parameter(asked.optimizer, asked.precision)
        source = f"{each:g} bytes a parameter ({asked.optimizer}, {asked.precision})"
        return Value(asked.parameters * each, source)
    if measured.size_bytes is not None:
        return Value(float(measured.size_bytes), "measured: the newest checkpoint")
    raise ValueError("say --params, or --checkpoints with a directory that has one")


def _save(asked: Asked, measured: Measured, size_bytes: float) -> Value:
    if asked.write_gb_per_s is not None:
        seconds = size_bytes / GB / asked.write_gb_per_s
        return Value(seconds, f"at {asked.write_gb_per_s:g} GB/s, all nodes together")
    if measured.save_s is not None and measured.size_bytes:
        if asked.parameters is None:
            return Value(measured.save_s, "measured: the longest there")
        rate = measured.size_bytes / max(measured.save_s, 1e-3)
        return Value(size_bytes / rate, f"measured: {rate / GB:.3g} GB/s")
    raise ValueError("say --write-gbps, or --checkpoints with a directory that has some")


def _blocked(asked: Asked, size_bytes: float) -> Value:
    each = size_bytes / (asked.nodes * asked.gpus_per_node)
    seconds = each / GB / asked.copy_gb_per_s
    return Value(seconds, f"a copy to host memory at {asked.copy_gb_per_s:g} GB/s a GPU")


def _cost(asked: Asked, blocked_s: float, save_s: float) -> Value:
    slower = f"standing still, and {100 * asked.slowdown:g} % slower while it is written"
    return Value(blocked_s + asked.slowdown * save_s, slower)


def _mtbf(asked: Asked, measured: Measured) -> Value:
    if asked.mtbf_s is not None:
        return Value(asked.mtbf_s, "as said")
    if measured.mtbf_s is not None:
        how_often = f"{measured.failures} in {measured.ran_s / 3600:.1f} h"
        return Value(measured.mtbf_s, f"measured: {how_often}")
    ran = f" in {measured.ran_s / 3600:.1f} h it has not failed;" if measured.ran_s else ""
    raise ValueError(f"say --mtbf, how often the job fails:{ran} for example --mtbf 8h")


def _interval(cost_s: float, save_s: float, mtbf_s: float, step_s: float) -> Value:
    return max(
        Value(best_interval_s(cost_s, mtbf_s), "Young-Daly"),
        Value(SHORTEST_INTERVAL_S, "more often is not worth its while"),
        Value(save_s, "a save has to be over before the next"),
        Value(step_s, "saves come between steps"),
        key=lambda one: one.value,
    )


def _recovery(asked: Asked, measured: Measured, load_s: float) -> Value:
    if measured.away_s is not None:
        away = f"measured: {measured.away_s:.0f} s until the next start"
        seconds = measured.away_s + asked.startup_s + load_s
        return Value(seconds, f"{away}, {asked.startup_s:.0f} s of start-up, loading")
    return Value(
        asked.startup_s + load_s, f"{asked.startup_s:.0f} s to the first step, loading"
    )


def _timeout_s(save_s: float, step_s: float) -> float:
    return math.ceil(max(lead.needed_s(save_s, step_s), SHORTEST_TIMEOUT_S) / 60) * 60.0
