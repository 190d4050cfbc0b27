"""What sysfs and the drivers say of network adapters and of the PCIe bus."""

from collections.abc import Mapping

import msgspec


class LinkFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One port of a network adapter, as sysfs tells it."""

    name: str
    """`mlx5_0:1` for an InfiniBand (or RoCE) port, `eth0` for a network interface."""
    present: bool = True
    state: str | None = None
    """ACTIVE, INIT, DOWN, … of a port; UP or DOWN of an interface."""
    physical_state: str | None = None
    """LinkUp, Polling, Disabled, … of a port."""
    layer: str | None = None
    """InfiniBand or Ethernet."""
    rate_gbps: float | None = None
    link_downed: int | None = None
    """Times the link went down since the driver was loaded."""
    unread: Mapping[str, str] = {}
