"""What a kind of node has."""

from typing import Annotated

import msgspec
from msgspec import Meta

from slurm_resilience.settings import AbsolutePath


class LinkExpectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link that has to be up."""

    rate_gbps: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    """At no less than this rate; None: any."""


class DiskExpectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A path to watch."""

    mounted: bool = False
    """A file system has to be mounted exactly there."""
    writable: bool = True


class Expectations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What this kind of node has. What is not named here is not missed."""

    gpus: Annotated[int, Meta(ge=0)] | None = None
    links: dict[str, LinkExpectation] = {}
    """By name: `mlx5_0:1` for port 1 of an InfiniBand or RoCE adapter, `eth0` for an interface."""
    disks: dict[AbsolutePath, DiskExpectation] = msgspec.field(
        default_factory=lambda: {"/tmp": DiskExpectation()}  # noqa: S108 - watched, not used
    )
    memory_mib: Annotated[int, Meta(ge=1)] | None = None
