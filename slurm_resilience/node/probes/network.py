"""InfiniBand and Ethernet links, out of sysfs."""

from __future__ import annotations

import os

from slurm_resilience.node.probes import files

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any


def read(sysfs: str, names: list[str], *, everything: bool = False) -> list[dict[str, Any]]:
    """
    The links called *names* (`mlx5_0:1`, `eth0`), as `facts.LinkFacts`.

    *everything*: all others of real adapters too, and of each what rarely matters.
    """
    if not everything:
        return [link(sysfs, name) for name in names]
    return [{**link(sysfs, name), **_more(sysfs, name)} for name in names_of(sysfs, names)]


def link(sysfs: str, name: str) -> dict[str, Any]:
    """One link; `present` is False where sysfs has none of that name."""
    device, _, port = name.partition(":")
    base = f"{sysfs}/class/infiniband/{device}/ports/{port}" if port else ""
    found = _port(base) if port else _interface(f"{sysfs}/class/net/{device}")
    return {"name": name, **found}


def names_of(sysfs: str, names: list[str]) -> list[str]:
    """*names*, and every other link of a real adapter."""
    return [*names, *(name for name in _all(sysfs) if name not in names)]


def _more(sysfs: str, name: str) -> dict[str, Any]:
    base = f"{sysfs}/class/net/{name}"
    if ":" in name or not os.path.isdir(base):
        return {}
    duplex = files.word(f"{base}/duplex")  # EINVAL of an interface that is down
    return {
        "duplex": duplex if duplex in {"full", "half"} else None,
        "rdma": os.path.isdir(f"{base}/device/infiniband"),
    }


def _all(sysfs: str) -> list[str]:
    adapters = files.names(f"{sysfs}/class/infiniband")
    ports = [
        f"{adapter}:{port}"
        for adapter in adapters
        for port in files.names(f"{sysfs}/class/infiniband/{adapter}/ports")
        if _is_physical(f"{sysfs}/class/infiniband/{adapter}")
    ]
    # Links of software (bridges, containers, loopback) have no device behind them.
    interfaces = [
        name
        for name in files.names(f"{sysfs}/class/net")
        if os.path.lexists(f"{sysfs}/class/net/{name}/device")
        and _is_physical(f"{sysfs}/class/net/{name}")
    ]
    return ports + interfaces


def _is_physical(base: str) -> bool:
    # A virtual function shows which physical one it is of: it is a guest's or container's. What
    # stands for it on the host's side names both in its port: pf0vf3.
    port = files.word(f"{base}/phys_port_name") or ""
    stands_in = port.startswith("pf") and ("vf" in port or "sf" in port)
    return not (stands_in or os.path.lexists(f"{base}/device/physfn"))


def _port(base: str) -> dict[str, Any]:
    if not os.path.isdir(base):
        return {"present": False}
    unread: dict[str, str] = {}
    state = _text(base, "state", unread)
    physical = _text(base, "phys_state", unread, "physical_state")
    rate = _text(base, "rate", unread, "rate_gbps")
    return {
        "state": state and state.partition(": ")[2],  # "4: ACTIVE"
        "physical_state": physical and physical.partition(": ")[2],
        "layer": _text(base, "link_layer", unread, "layer"),
        "rate_gbps": _leading_number(rate),  # "400 Gb/sec (4X NDR)"
        "lanes": _leading_number((rate or "").partition("(")[2].partition("X")[0], whole=True),
        "unread": unread,
    }


def _interface(base: str) -> dict[str, Any]:
    if not os.path.isdir(base):
        return {"present": False}
    unread: dict[str, str] = {}
    carrier = _text(base, "carrier", unread, "state")
    if carrier is None and "Invalid argument" in unread.get("state", ""):
        carrier = "0"  # so the kernel answers for an interface that is switched off
        del unread["state"]
    speed = _leading_number(_text(base, "speed", unread, "rate_gbps"))
    return {
        "state": None if carrier is None else ("UP" if carrier == "1" else "DOWN"),
        "layer": "Ethernet",
        # -1: unknown, of a link that is down or has no speed
        "rate_gbps": speed / 1000 if speed is not None and speed > 0 else None,
        "unread": unread,
    }


def _text(base: str, name: str, unread: dict[str, str], field: str = "") -> str | None:
    try:
        return files.text(f"{base}/{name}")
    except OSError as error:
        unread[field or name] = error.strerror or str(error)
        return None


def _leading_number(text: str | None, *, whole: bool = False) -> Any:  # noqa: ANN401
    try:
        return (int if whole else float)((text or "").split()[0])
    except (IndexError, ValueError):  # "N/A (no PMA)" and its kin
        return None
