"""How busy the node is: /proc/loadavg, and the bytes that its network hardware moved."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any


def read(proc: str, sysfs: str) -> dict[str, Any]:
    """As `facts.LoadFacts`. Raises OSError where /proc/loadavg cannot be read."""
    with open(f"{proc}/loadavg", encoding="ascii") as file:
        load = float(file.read().split()[1])
    return {
        "load": load,
        "cpus": os.cpu_count() or 1,
        "network_bytes": _network_bytes(f"{sysfs}/class/net"),
    }


def _network_bytes(folder: str) -> int | None:
    """None where there is no such hardware. What software adds on top would count twice."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return None
    hardware = [name for name in names if os.path.exists(f"{folder}/{name}/device")]
    counts = [
        _count(f"{folder}/{name}/statistics/{direction}")
        for name in hardware
        for direction in ("rx_bytes", "tx_bytes")
    ]
    return sum(counts) if counts else None


def _count(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())
