"""Power supplies and fans, as the board's management controller tells them through ipmitool."""

from __future__ import annotations

import os

from slurm_resilience.node.probes import tool

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

KINDS = {"Power Supply": "power-supply", "Fan": "fan"}
DEVICES = ("/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0")
"""Where ipmitool looks."""

_FIELDS = 5  # name | number | status | entity | reading


def read(tools: list[str], devices: Sequence[str] = DEVICES) -> list[dict[str, Any]] | None:
    """
    As `facts.SensorFacts`; None where there is no controller, or no ipmitool.

    Raises OSError where the controller does not answer, or in an unknown form.
    """
    ipmitool = tool.found("ipmitool", tools)
    if ipmitool is None or not any(os.access(path, os.R_OK | os.W_OK) for path in devices):
        return None
    return [
        _sensor(line, kind)
        for name, kind in KINDS.items()
        for line in tool.output([ipmitool, "sdr", "type", name]).splitlines()
        if line.strip()
    ]


def _sensor(line: str, kind: str) -> dict[str, Any]:
    fields = [field.strip() for field in line.split("|")]
    if len(fields) != _FIELDS:
        raise OSError(f"ipmitool said what is no sensor: {line.strip()}")
    name, _, status, _, says = fields
    return {"name": name, "kind": kind, "status": status, "says": says}
