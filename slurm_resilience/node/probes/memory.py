"""
The node's memory: size from /proc/meminfo, ECC counts from the kernel's EDAC in sysfs, machine
checks from /proc/interrupts.
"""

from __future__ import annotations

import glob

from slurm_resilience.node.probes import files

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
    if "HardwareCorrupted" not in sizes:
        unread["poisoned_kib"] = files.NOT_SUPPORTED  # a kernel without CONFIG_MEMORY_FAILURE
    return {
        "total_mib": int(sizes["MemTotal"]) // _KIB_A_MIB,
        "uncorrected": _sum(sysfs, "ue_count", unread, "uncorrected"),
        "corrected": _sum(sysfs, "ce_count", unread, "corrected"),
        "dimms": _dimms(sysfs),
        "poisoned_kib": int(sizes["HardwareCorrupted"])
        if "HardwareCorrupted" in sizes
        else None,
        "machine_checks": _machine_checks(proc, unread),
        "unread": unread,
    }


def _sum(sysfs: str, name: str, unread: dict[str, str], field: str) -> int | None:
    counts = glob.glob(f"{sysfs}/devices/system/edac/mc/mc[0-9]*/{name}")
    if not counts:
        unread[field] = files.NOT_SUPPORTED  # no EDAC driver for this machine
        return None
    total = 0
    for path in counts:
        try:
            total += int(files.text(path))
        except (OSError, ValueError) as error:
            unread[field] = str(error)
            return None
    return total


def _dimms(sysfs: str) -> list[dict[str, Any]]:
    found = []
    controller = f"{sysfs}/devices/system/edac/mc/mc[0-9]*"
    for folder in glob.glob(f"{controller}/dimm[0-9]*") + glob.glob(f"{controller}/rank[0-9]*"):
        try:
            label = files.text(f"{folder}/dimm_label") or "/".join(folder.split("/")[-2:])
            corrected = int(files.text(f"{folder}/dimm_ce_count"))
            uncorrected = int(files.text(f"{folder}/dimm_ue_count"))
        except (OSError, ValueError):
            continue  # the sums stand without it
        if corrected or uncorrected:
            found.append({"label": label, "corrected": corrected, "uncorrected": uncorrected})
    return found


def _machine_checks(proc: str, unread: dict[str, str]) -> int | None:
    try:
        with open(f"{proc}/interrupts", encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, counts = line.partition(":")
                if name.strip() == "MCE":
                    # One event reaches every processor.
                    return max(int(word) for word in counts.split() if word.isdecimal())
    except (OSError, ValueError) as error:
        unread["machine_checks"] = str(error)
        return None
    unread["machine_checks"] = files.NOT_SUPPORTED  # not an x86 processor
    return None
