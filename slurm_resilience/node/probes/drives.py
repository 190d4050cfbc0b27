"""What drives say of their own health, by nvme-cli and smartctl where they are installed."""

from __future__ import annotations

import os

from slurm_resilience.node.probes import tool

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NOT_SUPPORTED = "not supported"
_COULD_NOT = 0b11
"""Bits of smartctl's exit status: no such option, or the device cannot be opened or asked."""


def read(sysfs: str, tools: list[str]) -> list[dict[str, Any]]:
    """As `facts.DriveFacts`, of the drives in this machine that an installed tool can ask."""
    nvme, smartctl = tool.found("nvme", tools), tool.found("smartctl", tools)
    found = []
    for name in _nvme_drives(f"{sysfs}/class/nvme"):
        if nvme:
            found.append(_drive(name, _ask_nvme, nvme))
        elif smartctl:
            found.append(_drive(name, _ask_smartctl, smartctl))
    if smartctl:
        names = _scsi_drives(f"{sysfs}/block")
        found += [_drive(name, _ask_smartctl, smartctl) for name in names]
    return found


def _nvme_drives(folder: str) -> list[str]:
    """Those on this machine's bus: what comes over a fabric is somebody else's to look after."""
    return [name for name in _names(folder) if _word(f"{folder}/{name}/transport") == "pcie"]


def _scsi_drives(folder: str) -> list[str]:
    return [
        name
        for name in _names(folder)
        if name.startswith("sd") and _word(f"{folder}/{name}/removable") == "0"
    ]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _word(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _drive(
    name: str, ask: Callable[[str, str], dict[str, Any]], command: str
) -> dict[str, Any]:
    if os.geteuid() != 0:
        return {"name": name, "unread": {"health": f"{NOT_SUPPORTED} for who is not root"}}
    try:
        return {"name": name, **ask(command, name)}
    except (OSError, KeyError, TypeError, ValueError) as error:
        # One that does not answer, or answers in an unknown form, hides none of the others.
        why = str(error) if isinstance(error, OSError) else f"unknown form: {error!r}"
        return {"name": name, "unread": {"health": why}}


def _ask_nvme(command: str, name: str) -> dict[str, Any]:
    log = tool.document([command, "smart-log", f"/dev/{name}", "--output-format=json"])
    warning = log["critical_warning"]
    # Version 2 of nvme-cli spells the bits out where it is asked to be verbose.
    return {
        "critical_warning": int(warning["value"] if isinstance(warning, dict) else warning),
        "percent_used": int(log["percent_used"]),
        "media_errors": int(log["media_errors"]),
    }


def _ask_smartctl(command: str, name: str) -> dict[str, Any]:
    # Nobody's disk is woken for this.
    argv = [command, "--json", "--health", "--attributes", "--nocheck=standby", f"/dev/{name}"]
    told = tool.document(argv, accept=tool.ANY_STATUS)
    run = told["smartctl"]
    if int(run["exit_status"]) & _COULD_NOT or "smart_status" not in told:
        # Behind a RAID controller, on a virtual machine, or asleep.
        said = "; ".join(one["string"] for one in run.get("messages", ()))
        return {"unread": {"health": f"{NOT_SUPPORTED}: {said or 'no SMART status'}"}}
    passed = {"passed": bool(told["smart_status"]["passed"])}
    log = told.get("nvme_smart_health_information_log")
    if log is None:
        return passed
    return {
        **passed,
        "critical_warning": int(log["critical_warning"]),
        "percent_used": int(log["percentage_used"]),
        "media_errors": int(log["media_errors"]),
    }
