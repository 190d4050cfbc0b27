"""What NVML says of one GPU."""

from collections.abc import Mapping

import msgspec

NOT_SUPPORTED = "not supported"
RESET_REQUIRED = "ResetRequired"
"""The reason of what a GPU answers only after a reset."""


class GpuProcess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process that computes on a GPU."""

    pid: int
    memory_mib: int | None = None


class GpuFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What NVML said about one GPU."""

    index: int
    uuid: str | None = None
    pci: str | None = None
    """Normalised: `0000:1b:00`."""
    minor: int | None = None
    name: str | None = None
    serial: str | None = None
    lost: bool = False
    """NVML answered "GPU is lost", or gave no handle for it."""
    reset_required: bool = False
    """NVML answered "GPU requires reset"."""
    ecc_enabled: bool | None = None
    ecc_uncorrected: int | None = None
    """Volatile: since the driver was loaded or the GPU reset."""
    ecc_uncorrected_aggregate: int | None = None
    ecc_corrected: int | None = None
    """Volatile."""
    remapped_corrected: int | None = None
    """Rows remapped because of corrected errors."""
    remapped_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pending: bool | None = None
    recovery_action: int | None = None
    """NVML_GPU_RECOVERY_ACTION_…"""
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    utilization_percent: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    throttle_reasons: int | None = None
    """NVML's bit mask of clock event reasons."""
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_replays: int | None = None
    nvlinks: tuple[bool, ...] | None = None
    """Whether each NVLink is up."""
    persistence: bool | None = None
    mig: bool | None = None
    processes: tuple[GpuProcess, ...] | None = None
    unread: Mapping[str, str] = {}
    """Field -> why it could not be read."""
