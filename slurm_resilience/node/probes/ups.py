"""One uninterruptible power supply, as Network UPS Tools tell it (upsc)."""

from __future__ import annotations

import math

from slurm_resilience.node.probes import files, tool

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any

_FIGURES = {"charge_percent": "battery.charge", "runtime_s": "battery.runtime"}


def read(name: str, tools: list[str]) -> dict[str, Any]:
    """As `facts.UpsFacts`. Raises OSError where NUT does not tell how it stands."""
    upsc = tool.found("upsc", tools)
    if upsc is None:
        raise OSError("upsc is not installed, and power.ups asks for it")
    pairs = (line.partition(": ") for line in tool.output([upsc, name]).splitlines())
    told = {key.strip(): value.strip() for key, _, value in pairs}
    if not told.get("ups.status"):
        raise OSError(f"{upsc} said no ups.status of {name}")
    unread: dict[str, str] = {}
    figures = {field: _figure(told, key, unread, field) for field, key in _FIGURES.items()}
    return {
        "name": name, "status": told["ups.status"].split(), **figures, "unread": unread,
    }  # fmt: skip


def _figure(told: dict[str, str], key: str, unread: dict[str, str], field: str) -> float | None:
    if key not in told:
        unread[field] = files.NOT_SUPPORTED
        return None
    try:
        figure = float(told[key])
    except ValueError:
        figure = math.nan
    if math.isfinite(figure):
        return figure
    unread[field] = f"no figure: {told[key]}"
    return None
