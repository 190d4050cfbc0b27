"""What is known of the node's power and cooling."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class SensorFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One power supply or fan, as the board's management controller or the kernel tells it."""

    name: str
    kind: Literal["power-supply", "fan"]
    status: str
    """ok, nc, cr, nr (IPMI's thresholds passed), ns (no reading), or alarm."""
    says: str = ""
    """In the sensor's own words: `Presence detected, Power Supply AC lost`."""


class UpsFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One uninterruptible power supply, as Network UPS Tools tell it."""

    name: str
    """`name@host`."""
    status: tuple[str, ...]
    """NUT's words: OL, OB, LB, …"""
    charge_percent: float | None = None
    runtime_s: float | None = None
    """What the battery is good for."""
    unread: Mapping[str, str] = {}
