"""PCIe links of GPUs and network adapters, out of sysfs."""

from __future__ import annotations

import os

from slurm_resilience.node.probes import files

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any

_NVIDIA = "0x10de"
_DISPLAY, _NETWORK = "0x03", "0x02"
_ERRORS = {"corrected": "correctable", "nonfatal": "nonfatal", "fatal": "fatal"}


def read(sysfs: str) -> list[dict[str, Any]]:
    """Every NVIDIA GPU and every network adapter that is no virtual function, as `PcieFacts`."""
    root = f"{sysfs}/bus/pci/devices"
    found = []
    for address in files.names(root):
        kind = _kind(f"{root}/{address}")
        if kind:
            found.append({"address": address, "kind": kind, **_device(f"{root}/{address}")})
    return found


def _kind(base: str) -> str:
    code, vendor = files.word(f"{base}/class"), files.word(f"{base}/vendor")
    if code is None or os.path.lexists(f"{base}/physfn"):
        return ""
    if code.startswith(_DISPLAY) and vendor == _NVIDIA:
        return "gpu"
    return "nic" if code.startswith(_NETWORK) else ""


def _device(base: str) -> dict[str, Any]:
    unread: dict[str, str] = {}
    ids = [
        (files.word(f"{base}/{name}") or "0x").partition("0x")[2]
        for name in ("vendor", "device")
    ]
    found: dict[str, Any] = {
        "model": ":".join(ids),
        "width": _number(base, "current_link_width", unread, "width"),
        "speed_gts": _number(base, "current_link_speed", unread, "speed_gts"),
        "all_ones": _is_all_ones(base),
        "unread": unread,
    }
    for field, name in _ERRORS.items():
        found[field] = _errors(base, f"aer_dev_{name}", unread, field)
    # 255 of a device that is gone, 0 where the link has no width
    width = found["width"]
    return {**found, "width": int(width) if width and width < 255 else None}  # noqa: PLR2004


def _is_all_ones(base: str) -> bool:
    # A sleeping device would have to be woken for it.
    if files.word(f"{base}/power/runtime_status") in {"suspended", "suspending"}:
        return False
    try:
        descriptor = os.open(f"{base}/config", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(descriptor, 4) == b"\xff\xff\xff\xff"
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _errors(base: str, name: str, unread: dict[str, str], field: str) -> int | None:
    text = files.word(f"{base}/{name}")
    # Lines "RxErr 0", the last one "TOTAL_ERR_COR 0".
    for line in (text or "").splitlines():
        label, _, count = line.partition(" ")
        if label.startswith("TOTAL_ERR_") and count.strip().isdigit():
            return int(count)
    unread[field] = files.NOT_SUPPORTED if text is None else "no total in it"
    return None


def _number(base: str, name: str, unread: dict[str, str], field: str) -> float | None:
    text = files.word(f"{base}/{name}")
    try:
        return float((text or "").split()[0])  # "16.0 GT/s PCIe", "16", "Unknown"
    except (IndexError, ValueError):
        is_told = text not in {None, "Unknown"}  # the kernel's own word for no link
        unread[field] = f"not a number: {text}" if is_told else files.NOT_SUPPORTED
        return None
