"""What the kernel says of the node itself: disks, memory, processes, the clock."""

from collections.abc import Mapping

import msgspec


class DiskFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One watched path, as statvfs tells it. Percentages are rounded up."""

    path: str
    present: bool = True
    mounted: bool | None = None
    """Whether the path itself is where a file system is mounted."""
    read_only: bool | None = None
    used_percent: int | None = None
    inodes_used_percent: int | None = None
    """None too where the file system has no fixed number of inodes."""


class MemoryFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The node's own memory."""

    total_mib: int | None = None
    available_mib: int | None = None
    uncorrected: int | None = None
    """ECC errors since boot, over all memory controllers; None where the kernel counts none."""
    corrected: int | None = None
    unread: Mapping[str, str] = {}
