"""What sysfs and the drivers say of network adapters."""

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
    lanes: int | None = None
    """Of an InfiniBand port: 4 for 4X."""
    duplex: str | None = None
    """full or half, of an interface; only the health check reads it."""
    rdma: bool = True
    """False for an interface of an adapter without RDMA; only the health check looks."""
    unread: Mapping[str, str] = {}

    @property
    def is_up(self) -> bool | None:
        """Whether data can pass; None where the state was not read."""
        if not self.present:
            return False
        return None if self.state is None else self.state in {"ACTIVE", "UP"}


class LinkCounters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a port has counted since its driver was loaded. Lifetime values judge nothing."""

    name: str
    values: Mapping[str, int] = {}
    """By sysfs's name; `link_downed` also of an interface."""
    unread: Mapping[str, str] = {}


class OpticsFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cable's or transceiver's module, as far as the driver or `ethtool -m` shows it."""

    name: str
    """The link that it belongs to."""
    temperature_c: float | None = None
    temperature_limit_c: float | None = None
    """Where the module itself, or its driver, calls it critical."""
    receive_power_dbm: tuple[float, ...] | None = None
    """By lane; a lane without light is -40."""
    alarms: tuple[str, ...] | None = None
    """The module's own alarm flags that are on; None where it has none."""
    unread: Mapping[str, str] = {}
