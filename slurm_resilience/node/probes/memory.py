"""The node's memory: size from /proc/meminfo, ECC counts from the kernel's EDAC in sysfs."""

from __future__ import annotations

import glob

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any


_KIB_A_MIB = 1024


def read(proc: str, sysfs: str) -> dict[str, Any]:
    """As `facts.MemoryFacts`. Raises OSError where /proc/meminfo cannot be read."""
    with open(f"{proc}/meminfo", encoding="ascii") as file:
        sizes = {
            name: value.split()[0] for name, _, value in (line.partition(":") for line in file)
        }
    unread: dict[str, str] = {}
    return {
        "total_mib": int(sizes["MemTotal"]) // _KIB_A_MIB,
        "available_mib": int(sizes["MemAvailable"]) // _KIB_A_MIB,
        "uncorrected": _sum(sysfs, "ue_count", unread, "uncorrected"),
        "corrected": _sum(sysfs, "ce_count", unread, "corrected"),
        "unread": unread,
    }


def _sum(sysfs: str, name: str, unread: dict[str, str], field: str) -> int | None:
    files = glob.glob(f"{sysfs}/devices/system/edac/mc/mc[0-9]*/{name}")
    if not files:
        unread[field] = "not supported"  # no EDAC driver for this machine
        return None
    total = 0
    for path in files:
        try:
            with open(path, encoding="ascii") as file:
                total += int(file.read())
        except (OSError, ValueError) as error:
            unread[field] = str(error)
            return None
    return total
