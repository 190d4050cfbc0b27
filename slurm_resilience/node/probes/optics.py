"""Modules of network links: what the driver shows through hwmon, and `ethtool -m` where it is."""

from __future__ import annotations

import re

from slurm_resilience.node.probes import files, network, tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_FLAG = re.compile(
    r"^\s*(?P<name>[^:]*?\balarm)\s*(?P<lane>\([^)]*\))?\s*: (?P<state>on|off)\s*$",
    re.IGNORECASE,
)
_TEMPERATURE = re.compile(
    r"^\s*Module temperature\s*: (?P<c>-?[\d.]+) degrees C", re.IGNORECASE
)
_LIMIT = re.compile(
    r"^\s*Module temperature high alarm threshold\s*: (?P<c>-?[\d.]+) degrees C", re.IGNORECASE
)
_POWER = re.compile(
    r"^\s*(?:Rcvr signal avg optical power|Receiver signal (?:average|OMA) optical power)[^:]*: "
    r"[\d.]+ mW / (?P<dbm>-?(?:[\d.]+|inf)) dBm",
    re.IGNORECASE,
)
_DARK_DBM = -40.0
"""What ethtool writes as -inf, or modules as their least value."""
_MILLI = 1000.0


def read(sysfs: str, names: list[str], *, tools: list[str]) -> list[dict[str, Any]]:
    """The modules of the links *names*, and of all others with a sensor; as `OpticsFacts`."""
    ethtool = tool.found("ethtool", tools)
    found = []
    for name in network.names_of(sysfs, names):
        module = _sensor(_device(sysfs, name))
        interface = _interface(sysfs, name) if name in names else None
        if ethtool and interface and _is_up(sysfs, name):
            module |= _eeprom(ethtool, interface)
        if module:
            found.append({"name": name, **module})
    return found


def _device(sysfs: str, name: str) -> str:
    device, _, port = name.partition(":")
    return f"{sysfs}/class/{'infiniband' if port else 'net'}/{device}/device"


def _is_up(sysfs: str, name: str) -> bool:
    return network.link(sysfs, name).get("state") in {"ACTIVE", "UP"}


def _interface(sysfs: str, name: str) -> str | None:
    """The interface through which ethtool reaches a port."""
    if ":" not in name:
        return name
    return min(files.names(f"{_device(sysfs, name)}/net"), default=None)


def _sensor(device: str) -> dict[str, Any]:
    """mlx5 has a sensor labelled `Module0`, with the module's own limit, beside the chip's."""
    for folder in files.names(f"{device}/hwmon"):
        base = f"{device}/hwmon/{folder}"
        for file in files.names(base):
            if not (file.startswith("temp") and file.endswith("_label")):
                continue
            sensor = file.removesuffix("_label")
            if not (files.word(f"{base}/{file}") or "").lower().startswith("module"):
                continue
            celsius, limit = _number(f"{base}/{sensor}_input"), _number(f"{base}/{sensor}_crit")
            if celsius is not None:
                return {"temperature_c": celsius, "temperature_limit_c": limit or None}
    return {}


def _eeprom(ethtool: str, interface: str) -> dict[str, Any]:
    try:
        text = tool.output([ethtool, "-m", interface])
    except OSError as error:
        # A copper cable, or a port without a module, has nothing to tell.
        return {"unread": {"module": f"{files.NOT_SUPPORTED}: {error}"}}
    return decoded(text.splitlines())


def decoded(lines: Iterable[str]) -> dict[str, Any]:
    """What `ethtool -m` printed, as fields of `OpticsFacts`; empty where it decoded nothing."""
    found: dict[str, Any] = {}
    flags: list[str] | None = None
    lanes: list[float] = []
    for line in lines:
        if flag := _FLAG.match(line):
            flags = flags or []
            if flag["state"].lower() == "on":
                lane = f" {flag['lane']}" if flag["lane"] else ""
                flags.append(" ".join(flag["name"].split()) + lane)
        elif limit := _LIMIT.match(line):
            found["temperature_limit_c"] = float(limit["c"])
        elif temperature := _TEMPERATURE.match(line):
            found["temperature_c"] = float(temperature["c"])
        elif power := _POWER.match(line):
            dark = power["dbm"].endswith("inf")
            lanes.append(_DARK_DBM if dark else max(_DARK_DBM, float(power["dbm"])))
    if flags is not None:
        found["alarms"] = flags
    if lanes:
        found["receive_power_dbm"] = lanes
    return found


def _number(path: str) -> float | None:
    text = files.word(path)
    return int(text) / _MILLI if text and text.lstrip("-").isdigit() else None
