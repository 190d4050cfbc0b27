"""What sysfs says of the PCIe links of GPUs and network adapters."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class PcieFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The PCIe link of a GPU or network adapter, as sysfs tells it."""

    address: str
    """Normalised: `0000:1b:00.0`."""
    kind: Literal["gpu", "nic"]
    model: str = ""
    """Vendor and device, `10de:2330`: devices of one model are alike."""
    width: int | None = None
    speed_gts: float | None = None
    """Gigatransfers a second. An idle GPU goes down to 2.5."""
    all_ones: bool = False
    """Every register reads as ones: nothing answers at that address."""
    corrected: int | None = None
    """AER's counts since boot."""
    nonfatal: int | None = None
    fatal: int | None = None
    unread: Mapping[str, str] = {}
