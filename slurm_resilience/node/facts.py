"""
What was read on a node: frozen values, to and from JSON; no judgement.

None is always "could not be read", never zero; why it could not stands in `unread`. What a card
does not have is there as well, as `NOT_SUPPORTED`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from slurm_resilience.node.kernel_lines import KernelEvent, normalised_pci, parse_records

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


class NodeFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One node at one moment."""

    node: str
    boot_id: str = ""
    at: float = 0.0
    """Unix seconds."""
    driver_version: str | None = None
    nvml_version: str | None = None
    nvml_error: str | None = None
    """What NVML answered to its initialisation where that failed, for example DriverNotLoaded."""
    gpus: tuple[GpuFacts, ...] | None = None
    kernel_events: tuple[KernelEvent, ...] | None = None
    """Since boot, oldest first, as far as the kernel's ring buffer reaches back."""
    links: tuple[LinkFacts, ...] | None = None
    disks: tuple[DiskFacts, ...] = ()
    memory: MemoryFacts | None = None
    unread: Mapping[str, str] = {}
    """Probe -> why it gave no facts."""
    hung: tuple[str, ...] = ()
    """Probes that gave no answer in their time."""


def assemble(
    identity: Mapping[str, Any],
    answers: Mapping[str, Any],
    unread: Mapping[str, str],
    hung: tuple[str, ...],
) -> NodeFacts:
    """
    Facts from what the probes answered, by probe name (a disk's is `disk:<path>`).

    *identity*: node, boot_id, at.
    """
    fields: dict[str, Any] = {**identity, "unread": dict(unread), "hung": hung}
    fields |= answers.get("nvml", {})
    for gpu in fields.get("gpus", ()):
        if "pci" in gpu:
            gpu["pci"] = normalised_pci(gpu["pci"])
    if "kernel_log" in answers:
        fields["kernel_events"] = parse_records(answers["kernel_log"])
    for name in ("memory", "network"):
        if name in answers:
            fields["links" if name == "network" else name] = answers[name]
    fields["disks"] = tuple(
        answer for probe, answer in answers.items() if probe.startswith("disk:")
    )
    return msgspec.convert(fields, NodeFacts)


def to_json(facts: NodeFacts) -> bytes:
    """One document for people and `from_json`."""
    return msgspec.json.format(msgspec.json.encode(facts)) + b"\n"


def from_json(text: bytes) -> NodeFacts:
    """Recorded facts; raises `msgspec.MsgspecError` for anything else."""
    return msgspec.json.decode(text, type=NodeFacts)
