"""Where a figure becomes a finding."""

from typing import Annotated

import msgspec
from msgspec import Meta

Percent = Annotated[int, Meta(ge=1, le=100)]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a figure becomes a finding."""

    disk_warn_percent: Percent = 90
    disk_full_percent: Percent = 98
    """Of space or of inodes. Low enough that a job can still write its last log lines."""
    repeated: Annotated[int, Meta(ge=2)] = 3
    """How often a network adapter may report a transmit time-out since boot before it counts as
    a fault."""

    def __post_init__(self) -> None:
        """Refuse a warning that could only come after the fault it warns of."""
        if self.disk_warn_percent > self.disk_full_percent:
            raise ValueError(
                f"disk_warn_percent ({self.disk_warn_percent}) is above disk_full_percent"
                f" ({self.disk_full_percent})"
            )
