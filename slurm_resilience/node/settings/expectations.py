"""What a kind of node has."""

from typing import Annotated

import msgspec
from msgspec import Meta

from slurm_resilience.settings import AbsolutePath


class LinkExpectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link that has to be up."""

    rate_gbps: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    """At no less than this rate; None: any."""


class PcieExpectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The PCIe link that a device has to have."""

    width: Annotated[int, Meta(ge=1, le=32)] | None = None
    speed_gts: Annotated[float, Meta(gt=0, le=256)] | None = None
    """Gigatransfers a second; not judged of a GPU, which slows down when idle."""


PciAddress = Annotated[str, Meta(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]


class DiskExpectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A path to watch."""

    mounted: bool = False
    """A file system has to be mounted exactly there."""
    writable: bool = True


UnitName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9:_.@\\-]*$")]
ModuleName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+$")]


class Expectations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What this kind of node has. What is not named here is not missed."""

    gpus: Annotated[int, Meta(ge=0)] | None = None
    driver_version: str | None = None
    """NVIDIA driver, for example `550.54.15`."""
    ecc: bool | None = None
    """Whether ECC is to be on, on every GPU."""
    mig: bool | None = None
    """Whether MIG mode is to be on, on every GPU."""
    nvlinks: Annotated[int, Meta(ge=0)] | None = None
    """NVLinks that are up, on every GPU: 18 on an H100 SXM, 12 on an A100 SXM."""
    pcie_width: Annotated[int, Meta(ge=1, le=32)] | None = None
    """PCIe lanes of every GPU."""
    power_limit_w: Annotated[float, Meta(gt=0)] | None = None
    """Power limit of every GPU; None: the board's default."""
    links: dict[str, LinkExpectation] = {}
    """By name: `mlx5_0:1` for port 1 of an InfiniBand or RoCE adapter, `eth0` for an interface."""
    pcie: dict[PciAddress, PcieExpectation] = {}
    """By address as sysfs writes it: `0000:1b:00.0`."""
    disks: dict[AbsolutePath, DiskExpectation] = msgspec.field(
        default_factory=lambda: {"/tmp": DiskExpectation()}  # noqa: S108 - watched, not used
    )
    memory_mib: Annotated[int, Meta(ge=1)] | None = None
    services: tuple[UnitName, ...] = ()
    """systemd units that have to be active, for example `nvidia-fabricmanager`."""
    nvme_drives: Annotated[int, Meta(ge=0)] | None = None
    """NVMe drives on the node's own bus."""
    modules: tuple[ModuleName, ...] = ()
    """Kernel modules that have to be loaded, for example `nvidia-peermem`."""
