"""Rules over power supplies, fans and what stands behind them. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import NodeFacts, UpsFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

FAULTS = (
    "failure detected", "predictive failure", "ac lost", "ac out-of-range", "config error",
    "redundancy lost", "redundancy degraded", "non-redundant",
)  # fmt: skip
"""How ipmitool words the events of power supplies, and of redundancy, that are faults."""
PASSED = {"alarm": "alarm", "cr": "beyond its critical limit", "nr": "beyond its last limit"}
"""Sensor status -> what it means. `nc`, not critical, and `ns`, no reading, are none."""

ON_BATTERY = "OB"
LOW = {"LB", "FSD"}
"""Battery low; forced shutdown: the UPS is about to go."""
UPS_FAULTS = {
    "RB": "its battery needs replacing",
    "OVER": "overloaded",
    "OFF": "switched off",
    "BYPASS": "on bypass: it does not protect",
    "ALARM": "it raises an alarm",
}


def power_supply(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """A warning: the node still runs, on what is left. Whether that is enough the GPUs tell."""
    yield from _of_kind(facts, "power-supply", "power-supply")


def fan(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """A warning: what gets too hot says so itself."""
    yield from _of_kind(facts, "fan", "fan")


def _of_kind(facts: NodeFacts, kind: str, check: str) -> Iterator[Finding]:
    for sensor in facts.sensors:
        said = sensor.says.lower()
        told = any(fault in said for fault in FAULTS)
        if sensor.kind == kind and (sensor.status in PASSED or told):
            words = [] if told else [PASSED[sensor.status]]
            detail = ": ".join([*words, sensor.says] if sensor.says else words)
            yield Finding(check, Severity.WARN, sensor.name, detail)


def ups_on_battery(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Most outages are over in seconds: what runs goes on, and may save."""
    for ups in facts.upses:
        if ON_BATTERY in ups.status and not _is_low(ups):
            yield Finding("ups-on-battery", Severity.WARN, ups.name, _left(ups))


def ups_low(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """A job that started now would be lost in minutes."""
    for ups in facts.upses:
        if _is_low(ups):
            yield Finding("ups-low", Severity.DRAIN, ups.name, _left(ups))


def ups_fault(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """It matters at the next outage."""
    for ups in facts.upses:
        faults = [text for word, text in UPS_FAULTS.items() if word in ups.status]
        if faults:
            yield Finding("ups-fault", Severity.WARN, ups.name, "; ".join(faults))


def _is_low(ups: UpsFacts) -> bool:
    """Low while it charges again, on line, is the end of an outage and not its worst moment."""
    return "FSD" in ups.status or (ON_BATTERY in ups.status and bool(LOW & {*ups.status}))


def _left(ups: UpsFacts) -> str:
    left = []
    if ups.charge_percent is not None:
        left.append(f"{ups.charge_percent:.0f} %")
    if ups.runtime_s is not None:
        left.append(f"{ups.runtime_s:.0f} s")
    return f"on battery, {' and '.join(left)} left" if left else "on battery"


POWER_RULES: tuple[Rule, ...] = (power_supply, fan, ups_on_battery, ups_low, ups_fault)
