"""What can be set about `node`."""

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from slurm_resilience.node.checks import CHECKS, no_check
from slurm_resilience.node.settings.asked import DcgmSettings, PowerSettings
from slurm_resilience.node.settings.expectations import (
    DiskExpectation,
    Expectations,
    LinkExpectation,
    PcieExpectation,
)
from slurm_resilience.node.settings.links import LinkErrorRates
from slurm_resilience.node.settings.thresholds import Thresholds
from slurm_resilience.settings import Seconds
from slurm_resilience.slurm.hostlist import expand

__all__ = [
    "BLIND",
    "Budgets",
    "DcgmSettings",
    "DiskExpectation",
    "Drains",
    "Expectations",
    "Level",
    "LinkErrorRates",
    "LinkExpectation",
    "NodeSettings",
    "PcieExpectation",
    "PowerSettings",
    "Thresholds",
]

BLIND = ("probe-hung", "unread")
"""Checks that never drain."""

Level = Literal["off", "ok", "unknown", "warn", "drain-when-idle", "drain"]
LEVELS = get_args(Level)


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
    """For all that a hook asks of Slurm before it acts."""


class Drains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far drains go."""

    most_percent: Annotated[int, Meta(ge=1, le=100)] = 50
    """Of the nodes that share a partition with this one, drained by this project; one at least, 100:
    no limit. Past it an unfit node is kept in use, loudly: what looks like half a cluster going
    bad at once is most often one switch, one driver, or one wrong setting."""
    repeats_s: Seconds = 30 * 24 * 3600.0
    """A fault that comes back within this time is a repeated one: a reboot is advised the second
    time, a new part the third, and from then on only a person gives the node back."""


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How nodes are judged, and what follows."""

    mode: Literal["enforce", "observe"] = "enforce"
    """observe: say what would be drained, refused or killed, and do nothing."""
    expect: Expectations = Expectations()
    thresholds: Thresholds = Thresholds()
    power: PowerSettings = PowerSettings()
    dcgm: DcgmSettings = DcgmSettings()
    checks: dict[str, str | bool] = {}
    """Check id -> off, or the severity that its findings get."""
    xids: dict[Annotated[int, Meta(ge=1)], str | bool] = {}
    """Xid -> the same, for one code."""
    budgets: Budgets = Budgets()
    resume_after: Annotated[int, Meta(ge=1)] = 3
    """Clean health checks in a row before a drain of ours is lifted."""
    verdict_age_s: Seconds = 1800.0
    """How long the prolog believes what the last health check found."""
    drains: Drains = Drains()
    grace_s: Annotated[float, Meta(ge=0, le=3600)] = 120.0
    """After boot: what comes up (driver, GPUs, links, mounts, services) is only said to be missing
    until then. They come one after the other, while slurmd may be up already."""
    profiles: dict[Annotated[str, Meta(min_length=1)], Expectations] = {}
    """Slurm host list, `gpu[001-128]` -> what those nodes have. The first that holds a node takes
    the place of `node.expect` there; `facts --learn` writes one."""

    def __post_init__(self) -> None:
        """
        Refuse a misspelt check: it would silently stay at its default.

        YAML reads the bare word off as false, so that is what it means here too.
        """
        for nodes in self.profiles:
            expand(nodes)  # says what is wrong with it
        for where, levels in (("checks", self.checks), ("xids", self.xids)):
            for key, level in levels.items():
                if level is True:
                    raise ValueError(f"{where}: {key}: on is no severity; leave it out")
                if level and level not in LEVELS:
                    raise ValueError(
                        f"{where}: {key}: {level!r} is none of {', '.join(LEVELS)}"
                    )
                levels[key] = level or "off"  # type: ignore[index]
        for check, level in self.checks.items():
            if check not in CHECKS:
                raise ValueError(f"checks: {no_check(check)}")
            if check in BLIND and level in {"drain", "drain-when-idle"}:
                raise ValueError(
                    f"checks: {check} says only what was not seen; it cannot drain"
                )

    def at(self, node: str) -> "NodeSettings":
        """The settings of one node: its profile, where it has one, in place of `expect`."""
        for nodes, profile in self.profiles.items():
            if node in expand(nodes):
                return msgspec.structs.replace(self, expect=profile)
        return self
