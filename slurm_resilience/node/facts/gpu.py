"""What NVML says of one GPU."""

from collections.abc import Mapping

import msgspec

NOT_SUPPORTED = "not supported"
RESET_REQUIRED = "ResetRequired"
"""The reason of what a GPU answers only after a reset."""


class GpuProcess(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A process that uses a GPU: computes, draws, or goes through MPS."""

    pid: int
    memory_mib: int | None = None
    draws: bool = False
    """It uses the GPU to draw only, as an X server does."""


class GpuFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What NVML said about one GPU."""

    index: int
    uuid: str | None = None
    pci: str | None = None
    """Normalised: `0000:1b:00.0`."""
    minor: int | None = None
    name: str | None = None
    serial: str | None = None
    vbios: str | None = None
    inforom_valid: bool | None = None
    """Whether the board's own memory of its settings and its history adds up."""
    lost: bool = False
    """NVML answered "GPU is lost", or gave no handle for it."""
    reset_required: bool = False
    """NVML answered "GPU requires reset"."""
    ecc_enabled: bool | None = None
    ecc_uncorrected: int | None = None
    """Volatile: since the driver was loaded or the GPU reset."""
    ecc_uncorrected_aggregate: int | None = None
    """Over the board's lifetime."""
    sram_uncorrected_aggregate: int | None = None
    sram_threshold_exceeded: bool | None = None
    """The board's own word that its SRAM has had too many."""
    ecc_corrected: int | None = None
    """Volatile."""
    remapped_uncorrected: int | None = None
    """Rows remapped because of uncorrected errors."""
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remap_banks_exhausted: int | None = None
    """Banks of memory without a spare row left."""
    retired_pending: bool | None = None
    retired_single_bit: int | None = None
    """Pages retired because of repeated single-bit errors; boards before Ampere."""
    retired_double_bit: int | None = None
    recovery_action: int | None = None
    """NVML_GPU_RECOVERY_ACTION_…"""
    temperature_c: int | None = None
    temperature_slowdown_c: int | None = None
    """The board's own limit, at which its hardware slows down."""
    temperature_margin_c: int | None = None
    """Degrees left to the board's limit, where it tells that instead."""
    power_w: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    utilization_percent: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    throttle_reasons: int | None = None
    """NVML's bit mask of clock event reasons."""
    clock_mhz: int | None = None
    """Of the SMs, as are the next three."""
    clock_max_mhz: int | None = None
    application_clock_mhz: int | None = None
    application_clock_default_mhz: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_replays: int | None = None
    nvlinks: tuple[bool, ...] | None = None
    """Whether each NVLink is up."""
    nvlinks_seen: int | None = None
    """Most NVLinks that were up at once, as far as this boot's earlier hooks saw."""
    nvlink_crc_errors: int | None = None
    """Over all links, as is the next."""
    nvlink_recoveries: int | None = None
    fabric_state: int | None = None
    """NVML_GPU_FABRIC_STATE_…: how far the fabric manager came with it."""
    fabric_status: int | None = None
    """NVML_ERROR_… that it came to, 0 for none."""
    fabric_health: int | None = None
    """NVML_GPU_FABRIC_HEALTH_MASK_…"""
    persistence: bool | None = None
    mig: bool | None = None
    mig_devices: tuple[str, ...] = ()
    """UUIDs of the MIG devices that are cut out of it."""
    processes: tuple[GpuProcess, ...] | None = None
    unread: Mapping[str, str] = {}
    """Field -> why it could not be read."""

    @property
    def nvlinks_up(self) -> int | None:
        """How many NVLinks are up."""
        return None if self.nvlinks is None else sum(self.nvlinks)
