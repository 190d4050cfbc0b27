"""
Power supplies and their fans, where the kernel's hwmon shows them (PMBus drivers).

Other chips are passed over: a board's own monitor raises alarms for fans that nobody connected.
"""

from __future__ import annotations

from slurm_resilience.node.probes import files

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any

_INPUT = "vin"
"""How PMBus drivers label the voltage that comes in."""
_ENDS = ("_alarm", "_fault")


def read(sysfs: str) -> list[dict[str, Any]]:
    """As `facts.SensorFacts`; empty where no driver shows a power supply."""
    folder = f"{sysfs}/class/hwmon"
    return [
        sensor
        for chip in files.names(folder)
        if files.word(f"{folder}/{chip}/in1_label") == _INPUT
        for sensor in _sensors(f"{folder}/{chip}", chip)
    ]


def _sensors(folder: str, chip: str) -> list[dict[str, Any]]:
    name = f"{files.word(f'{folder}/name') or ''}-{chip}"
    alarms = [one for one in files.names(folder) if one.endswith(_ENDS)]
    raised = [one for one in alarms if files.word(f"{folder}/{one}") == "1"]
    fans = [one for one in raised if one.startswith("fan")]
    others = [one for one in raised if one not in fans]
    sensors = [_sensor(name, "power-supply", others)]
    if any(one.startswith("fan") for one in alarms):
        sensors.append(_sensor(name, "fan", fans))
    return sensors


def _sensor(name: str, kind: str, raised: list[str]) -> dict[str, Any]:
    status = "alarm" if raised else "ok"
    return {"name": name, "kind": kind, "status": status, "says": ", ".join(raised)}
