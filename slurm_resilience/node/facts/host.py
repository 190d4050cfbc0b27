"""What the kernel says of the node itself: disks, memory, processes, the clock."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class DiskFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One watched path, as statvfs tells it. Percentages are rounded up."""

    path: str
    present: bool = True
    mounted: bool | None = None
    """Whether the path itself is where a file system is mounted."""
    read_only: bool | None = None
    type: str | None = None
    """Of the file system, as the kernel calls it: ext4, nfs4, lustre, …"""
    used_percent: int | None = None
    free_gib: int | None = None
    """At most `thresholds.disk_free_gib`: all above it is room enough."""
    inodes_used_percent: int | None = None
    """None too where the file system has no fixed number of inodes."""
    error: str | None = None
    """What the file system answered instead, for example `Stale file handle`."""


class DimmFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One memory module that made errors since boot."""

    label: str
    """As the board calls it, else where it is: `CPU_SrcID#0_MC#1_Chan#0_DIMM#0`, `mc1/dimm0`."""
    corrected: int
    uncorrected: int


class MemoryFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The node's own memory."""

    total_mib: int | None = None
    uncorrected: int | None = None
    """ECC errors since boot, over all memory controllers; None where the kernel counts none."""
    corrected: int | None = None
    dimms: tuple[DimmFacts, ...] = ()
    """Those with errors, as far as the kernel tells them apart."""
    poisoned_kib: int | None = None
    """Pages that the kernel took out of use because of errors."""
    machine_checks: int | None = None
    """Machine check exceptions since boot, on the processor that had most."""
    unread: Mapping[str, str] = {}


class StuckProcess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process of the GPU stack that could not be scheduled or reaped when it was looked at."""

    pid: int
    name: str
    state: Literal["D", "Z"]
    """Uninterruptible sleep, or dead and not reaped."""
    switches: int
    """Context switches so far: as long as these stand still, it has not run."""
    in_driver: bool | None = None
    """Whether its kernel stack holds the NVIDIA driver; None where only root may look."""


class ProcessFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The node's processes."""

    stuck: tuple[StuckProcess, ...] = ()
    threads: int | None = None
    threads_max: int | None = None
    """The lower of kernel.pid_max and kernel.threads-max."""
    files: int | None = None
    files_max: int | None = None
    """Open files of the whole node, and fs.file-max."""
    slurmd: bool = False
    steps: int = 0
    """Running slurmstepd: 0 means that no job runs."""


class LoadFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How busy the node is."""

    load: float
    """Mean number of runnable or waiting threads over the last five minutes."""
    cpus: int
    network_bytes: int | None = None
    """Received and sent since boot by the network interfaces that are hardware."""
    unread: Mapping[str, str] = {}


class ClockFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the kernel says of its clock (adjtimex)."""

    synchronised: bool
    offset_s: float | None = None
    """How far off it is, as far as whoever steers it says."""
    error_s: float | None = None
    """How far off it may be by estimate."""


class ServiceFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One systemd unit, in systemd's words."""

    name: str
    load: str
    """loaded, not-found, masked, …"""
    active: str
    """active, inactive, failed, activating, …"""
    sub: str = ""
    """running, dead, auto-restart, …"""


class LibraryFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One of the driver's libraries, as the loader finds it."""

    name: str
    error: str | None = None
    """Why it cannot be loaded, in the loader's words."""
    empty: bool = False
    """Its file has no content."""


class DriveFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One drive, as it tells of its own health (NVMe SMART log, or ATA and SCSI SMART)."""

    name: str
    """`nvme0`, `sda`."""
    state: str | None = None
    """The kernel's word for it: live or running; dead, offline, resetting, …"""
    passed: bool | None = None
    """SMART's own verdict."""
    critical_warning: int | None = None
    """NVMe's bit mask."""
    percent_used: int | None = None
    """NVMe: of the rated endurance; may pass 100."""
    media_errors: int | None = None
    """NVMe: unrecovered data errors in the drive's life."""
    unread: Mapping[str, str] = {}


class RaidFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One array of the kernel's own RAID (/proc/mdstat)."""

    name: str
    state: str
    """active, inactive, broken, …"""
    level: str = ""
    """raid1, raid0, …"""
    missing: int = 0
    """Members that should be there and work, and do not."""
    failed: tuple[str, ...] = ()
    """Members marked as faulty."""
    recovering: bool = False
