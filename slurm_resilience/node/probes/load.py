"""How busy the node is: /proc/loadavg, and the bytes that its network hardware moved."""

from __future__ import annotations

import os

from slurm_resilience.node.probes import files

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any


def read(proc: str, sysfs: str) -> dict[str, Any]:
    """As `facts.LoadFacts`. Raises OSError where /proc/loadavg cannot be read."""
    with open(f"{proc}/loadavg", encoding="ascii") as file:
        load = float(file.read().split()[1])
    found = {"load": load, "cpus": os.cpu_count() or 1}
    try:
        return {**found, "network_bytes": _network_bytes(f"{sysfs}/class/net")}
    except FileNotFoundError:  # none is hardware, or one is gone meanwhile
        return {**found, "unread": {"network_bytes": files.NOT_SUPPORTED}}
    except OSError as error:
        return {**found, "unread": {"network_bytes": str(error)}}


def _network_bytes(folder: str) -> int:
    """
    Of hardware alone: what software adds on top would count twice.

    Raises FileNotFoundError where there is none, OSError where it has no counts.
    """
    hardware = [
        name for name in os.listdir(folder) if os.path.exists(f"{folder}/{name}/device")
    ]
    if not hardware:
        raise FileNotFoundError("no network interface is hardware")
    return sum(
        int(files.text(f"{folder}/{name}/statistics/{direction}"))
        for name in hardware
        for direction in ("rx_bytes", "tx_bytes")
    )
