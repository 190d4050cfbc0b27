"""What can be set about `node`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slurm_resilience.node.findings import CHECKS
from slurm_resilience.settings import AbsolutePath, Seconds

BLIND = ("probe-hung", "unread")
"""Checks that never drain."""

Percent = Annotated[int, Meta(ge=1, le=100)]
Level = Literal["off", "ok", "unknown", "warn", "drain-when-idle", "drain"]


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


class Budgets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds. The shims end a hook that outruns them: prolog and epilog at 15, health at 55."""

    prolog_s: Annotated[float, Meta(gt=0, le=12)] = 5.0
    epilog_s: Annotated[float, Meta(gt=0, le=12)] = 8.0
    health_s: Annotated[float, Meta(gt=0, le=50)] = 45.0
    """Slurm ends a HealthCheckProgram after 60."""
    probe_s: Annotated[float, Meta(gt=0, le=45)] = 3.0
    """For one probe in the prolog and epilog. NVML takes seconds to start where persistence mode
    is off."""
    slow_probe_s: Annotated[float, Meta(gt=0, le=45)] = 30.0
    """For one probe in the health check."""
    slurm_s: Annotated[float, Meta(gt=0, le=10)] = 3.0
    """For one question to Slurm."""


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How nodes are judged, and what follows."""

    mode: Literal["enforce", "observe"] = "enforce"
    """observe: say what would be drained, refused or killed, and do nothing."""
    expect: Expectations = Expectations()
    thresholds: Thresholds = Thresholds()
    checks: dict[str, Level | bool] = {}
    """Check id -> off, or the severity that its findings get."""
    xids: dict[Annotated[int, Meta(ge=1)], Level | bool] = {}
    """Xid -> the same, for one code."""
    budgets: Budgets = Budgets()
    resume_after: Annotated[int, Meta(ge=1)] = 3
    """Clean health checks in a row before a drain of ours is lifted."""
    verdict_age_s: Seconds = 1800.0
    """How long the prolog believes what the last health check found."""

    def __post_init__(self) -> None:
        """
        Refuse a misspelt check: it would silently stay at its default.

        YAML reads the bare word off as false, so that is what it means here too.
        """
        for levels in (self.checks, self.xids):
            for key, level in levels.items():
                if level is True:
                    raise ValueError(f"{key}: on is no severity; leave it out")
                levels[key] = level or "off"  # type: ignore[index]
        for check, level in self.checks.items():
            if check not in CHECKS:
                raise ValueError(f"checks: no check {check!r}; there are {', '.join(CHECKS)}")
            if check in BLIND and level in {"drain", "drain-when-idle"}:
                raise ValueError(
                    f"checks: {check} says only what was not seen; it cannot drain"
                )
