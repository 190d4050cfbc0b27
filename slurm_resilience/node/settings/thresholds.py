"""Where a figure becomes a finding."""

from typing import Annotated

import msgspec
from msgspec import Meta

from slurm_resilience.node.settings.links import LinkErrorRates
from slurm_resilience.settings import Seconds

Percent = Annotated[int, Meta(ge=1, le=100)]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a figure becomes a finding."""

    disk_warn_percent: Percent = 90
    disk_full_percent: Percent = 98
    """Of space or of inodes. Low enough that a job can still write its last log lines."""
    disk_free_gib: Annotated[int, Meta(ge=1, le=100)] = 10
    """With so much space left a disk is not full, whatever its percentage: 2 % of a big one are
    hundreds of GiB."""
    shm_warn_percent: Percent = 80
    """Of /dev/shm used. What ranks exchange and data loaders hand over lies there; jobs that were
    killed leave theirs behind."""
    limit_warn_percent: Percent = 80
    """Of the node's limit of threads or of open files. gpud warns at the same."""
    memory_per_gpu_memory: Annotated[float, Meta(ge=0, le=100)] = 1.5
    """Host memory, in units of all GPUs' memory together, that a node should have: what a
    checkpoint's copy, pinned buffers and data loaders need beside each other. 0: do not look."""
    memory_corrected_per_hour: Annotated[int, Meta(ge=1)] = 100
    """Host memory errors that ECC corrected. Single ones are weather; a DIMM that keeps on is
    going bad, and each costs the processor time. mcelog speaks up at 10 a day and page."""
    stuck_s: Seconds = 300.0
    """How long a process of the GPU stack may sit without running once before it counts as stuck.
    The kernel's own hung-task detector waits 120 s, peers five minutes."""
    clock_offset_s: Annotated[float, Meta(gt=0, le=3600)] = 1.0
    """How far the clock may be off. Logs of nodes no longer order themselves; munge, and with it
    Slurm, gives up at 300 s."""
    idle_s: Seconds = 900.0
    """How long no job has run before load or traffic counts as nobody's. By then what a job left
    in the five-minute load has faded to a twentieth."""
    idle_load_percent: Percent = 25
    """Load on an idle node, of its processors."""
    idle_network_mbps: Annotated[float, Meta(gt=0)] = 200.0
    """Traffic of all network interfaces together on an idle node, Mbit/s, sent and received. Well
    above what monitoring and a file system client need."""
    drive_worn_percent: Annotated[int, Meta(ge=1, le=255)] = 100
    """Of an NVMe drive's rated endurance used."""
    repeated: Annotated[int, Meta(ge=2, le=64)] = 3
    """How often a network adapter may report a transmit time-out within an hour before it counts as
    a fault."""
    disk_errors: Annotated[int, Meta(ge=2, le=64)] = 10
    """How often the kernel may report an error of one disk within an hour before it counts as a
    fault; below it is a warning."""
    link_flaps: Annotated[int, Meta(ge=2, le=64)] = 3
    """How often a link may go down within an hour: NVSentinel's figure. A switch that is restarted
    takes it down once."""
    link_errors_per_s: LinkErrorRates = LinkErrorRates()
    """How fast error counters of network ports may grow."""
    pcie_corrected_per_s: Annotated[float, Meta(gt=0)] = 10.0
    """PCIe errors of a device that the link repeated, a second: from here on a warning. A sound
    link has one in hours."""

    sustained_s: Seconds = 600.0
    """How long a GPU's state has to last, seen by every health check, before it counts as lasting."""
    rate_window_s: Seconds = 600.0
    """Over how long rates of GPUs, ports and PCIe links are taken. Two health checks have to fall into it."""
    ecc_corrected: Annotated[int, Meta(ge=1)] = 50_000_000
    """Corrected memory errors of a GPU since its last reset: above it is a warning."""
    ecc_corrected_per_s: Annotated[float, Meta(gt=0)] = 10.0
    """Corrected memory errors of a GPU a second: from here on a warning."""
    ecc_storm_per_s: Annotated[float, Meta(gt=0)] = 1000.0
    """Corrected memory errors of a GPU a second: from here on a fault."""
    sram_uncorrected_lifetime: Annotated[int, Meta(ge=0)] = 4
    """Uncorrected errors in a GPU's SRAM over its lifetime: above it, it is one to replace."""
    remapped_rows: Annotated[int, Meta(ge=1)] = 512
    """Rows of a GPU's memory remapped for uncorrected errors: above it the GPU is worn out."""
    retired_pages: Annotated[int, Meta(ge=1)] = 63
    """Retired pages of a GPU: from here on its table is full."""
    retired_double_bit: Annotated[int, Meta(ge=0)] = 15
    """Pages of a GPU retired for double-bit errors: above it is a warning."""
    gpu_temperature_c: Annotated[int, Meta(ge=1)] = 93
    """Too hot, for a GPU that tells no limit of its own."""
    gpu_clock_percent: Percent = 50
    """Below this part of its greatest clock a GPU at work is slow."""
    gpu_memory_mib: Annotated[int, Meta(ge=1)] = 2048
    """GPU memory in use without any process: above it is a warning. The driver's own share is below;
    5000 where a network stack keeps buffers there (TCPX)."""
    nvlink_crc_per_s: Annotated[float, Meta(gt=0)] = 100.0
    """NVLink CRC errors of a GPU a second: from here on a warning."""

    def __post_init__(self) -> None:
        """Refuse a warning that could only come after the fault it warns of."""
        if self.disk_warn_percent > self.disk_full_percent:
            raise ValueError(
                f"disk_warn_percent ({self.disk_warn_percent}) is above disk_full_percent"
                f" ({self.disk_full_percent})"
            )
        if self.ecc_corrected_per_s > self.ecc_storm_per_s:
            raise ValueError(
                f"ecc_corrected_per_s ({self.ecc_corrected_per_s}) is above ecc_storm_per_s"
                f" ({self.ecc_storm_per_s})"
            )
