"""What drives say of their own health, by nvme-cli and smartctl where they are installed."""

from __future__ import annotations

import os
from functools import partial

from slurm_resilience.node.probes import files, tool

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

GONE = {"dead", "offline"}
"""States in which a question to a drive would only wait."""
_COULD_NOT = 0b11
"""Bits of smartctl's exit status: no such option, or the device cannot be opened or asked."""


def read(sysfs: str, tools: list[str]) -> list[dict[str, Any]]:
    """As `facts.DriveFacts`, of the drives in this machine."""
    nvme, smartctl = tool.found("nvme", tools), tool.found("smartctl", tools)
    ask_scsi = partial(_ask_smartctl, smartctl) if smartctl else None
    ask_nvme = partial(_ask_nvme, nvme) if nvme else ask_scsi
    folder, block = f"{sysfs}/class/nvme", f"{sysfs}/block"
    return [
        *(_drive(name, f"{folder}/{name}/state", ask_nvme) for name in _nvme_drives(folder)),
        *(
            _drive(name, f"{block}/{name}/device/state", ask_scsi)
            for name in _scsi_drives(block)
        ),
    ]


def _nvme_drives(folder: str) -> list[str]:
    """Those on this machine's bus: what comes over a fabric is somebody else's to look after."""
    return [
        name
        for name in files.names(folder)
        if files.word(f"{folder}/{name}/transport") == "pcie"
    ]


def _scsi_drives(folder: str) -> list[str]:
    return [
        name
        for name in files.names(folder)
        if name.startswith("sd") and files.word(f"{folder}/{name}/removable") == "0"
    ]


def _drive(
    name: str, state: str, ask: Callable[[str], dict[str, Any]] | None
) -> dict[str, Any]:
    drive = {"name": name, "state": files.word(state) or None}
    if ask is None:
        return {**drive, "unread": {"health": f"{files.NOT_SUPPORTED}: no tool is installed"}}
    if os.geteuid() != 0:
        return {**drive, "unread": {"health": f"{files.NOT_SUPPORTED} for who is not root"}}
    if drive["state"] in GONE:
        return {**drive, "unread": {"health": f"{files.NOT_SUPPORTED}: it is {drive['state']}"}}
    try:
        return {**drive, **ask(name)}
    except (
        OSError,
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
    ) as error:
        # One that does not answer, or answers in an unknown form, hides none of the others.
        why = str(error) if isinstance(error, OSError) else f"unknown form: {error!r}"
        return {**drive, "unread": {"health": why}}


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
        return {"unread": {"health": f"{files.NOT_SUPPORTED}: {said or 'no SMART status'}"}}
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
