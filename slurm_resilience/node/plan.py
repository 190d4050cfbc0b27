"""
What a hook has to know before it can look: paths, names and limits, out of the configuration.

Reading YAML and checking it takes longer than looking at eight GPUs. So whoever did read it, as
root, leaves the plan beside the state, stamped with what the file was; the next hook takes it if
the stamp still fits. Plain builtins throughout: see `hooks` for why.
"""

from __future__ import annotations

import marshal
import os
import sys
import zlib

from slurm_resilience import __version__, places
from slurm_resilience.node.state import kept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from slurm_resilience.config import Config

    Probe = tuple[Callable[..., object], dict[str, Any]]
    """A probe and its arguments."""

    Row = tuple[str, dict[str, Any]]
    """The module under `probes/` whose `read` it is, and its arguments: plain builtins."""

COMPILED = f"{places.STATE}/plan"
"""
Not under `paths.state`: where that is, only the plan can say. In the format in which Python keeps
its own compiled modules, and believed for the same reason: only root could have written it.
"""

PROFILES = ("prolog", "epilog", "health", "full")


def plan_of(config: Config, stamp: list[Any] | None = None) -> dict[str, Any]:
    """
    The plan for a configuration that was read from a file with this *stamp*.

    *config* is the node's own (see `Config.at`).
    """
    node, budgets = config.node, config.node.budgets
    fast, slow = _fast(config), _slow(config)
    epilog = {**fast, **_dcgm(config, "epilog")}
    return {
        "stamp": stamp,
        "state": config.paths.state,
        "proc": config.paths.proc,
        "verdict_age_s": node.verdict_age_s,
        "probes": {"prolog": fast, "epilog": epilog, "health": slow, "full": slow},
        "budget_s": {
            "prolog": budgets.prolog_s,
            "epilog": budgets.epilog_s,
            "health": budgets.health_s,
            "full": budgets.health_s,
        },
        "probe_s": {
            "prolog": budgets.probe_s,
            "epilog": budgets.probe_s,
            "health": budgets.slow_probe_s,
            "full": budgets.slow_probe_s,
        },
    }


def _fast(config: Config) -> dict[str, Row]:
    """What prolog and epilog ask: quick, and its answers stay the same on a healthy node."""
    paths, expect = config.paths, config.node.expect
    rows: dict[str, Row] = {"kernel_log": ("kernel_log", {"path": paths.kmsg})}
    if expect.links:
        rows["network"] = ("network", {"sysfs": paths.sysfs, "names": list(expect.links)})
    rows |= {f"disk:{path}": _disk(config, path) for path in expect.disks}
    return rows


def _disk(config: Config, path: str) -> Row:
    enough_gib = config.node.thresholds.disk_free_gib
    return "disk", {"path": path, "proc": config.paths.proc, "enough_gib": enough_gib}


def _slow(config: Config) -> dict[str, Row]:
    """What the health check asks: all of that, and what takes its time or changes each time."""
    paths, expect = config.paths, config.node.expect
    links = {"sysfs": paths.sysfs, "names": list(expect.links)}
    memory = {"memory": f"{paths.state}/unsupported-counters", "proc": paths.proc}
    return {
        **_fast(config),
        "kernel_log": ("kernel_log", {"path": paths.kmsg, "everything": True}),
        "network": ("network", {**links, "everything": True}),
        "counters": ("counters", {**links, **memory}),
        "optics": ("optics", {**links, "tools": list(paths.tools)}),
        "pcie": ("pcie", {"sysfs": paths.sysfs}),
        **_host(config),
        **_power(config),
        **_dcgm(config, "health"),
    }


def _host(config: Config) -> dict[str, Row]:
    expect, proc, sysfs = config.node.expect, config.paths.proc, config.paths.sysfs
    tools = list(config.paths.tools)
    rows: dict[str, Row] = {
        "shm": _disk(config, "/dev/shm"),  # noqa: S108 - watched, not used
        "memory": ("memory", {"proc": proc, "sysfs": sysfs}),
        "processes": ("processes", {"proc": proc}),
        "load": ("load", {"proc": proc, "sysfs": sysfs}),
        "clock": ("clock", {}),
        "libraries": ("libraries", {}),
        "drives": ("drives", {"sysfs": sysfs, "tools": tools}),
        "raid": ("raid", {"proc": proc}),
    }
    if expect.services:
        rows["services"] = ("services", {"names": list(expect.services), "tools": tools})
    if expect.modules:
        rows["modules"] = ("modules", {"names": list(expect.modules), "sysfs": sysfs})
    return rows


def _power(config: Config) -> dict[str, Row]:
    power, tools = config.node.power, list(config.paths.tools)
    rows: dict[str, Row] = {"hwmon": ("hwmon", {"sysfs": config.paths.sysfs})}
    if power.ipmi:
        rows["ipmi"] = ("ipmi", {"tools": tools})
    rows |= {f"ups:{name}": ("ups", {"name": name, "tools": tools}) for name in power.ups}
    return rows


def _dcgm(config: Config, hook: str) -> dict[str, Row]:
    """Only where it is asked for, and never in the prolog: it takes seconds, or hangs."""
    dcgm, tools = config.node.dcgm, list(config.paths.tools)
    asked = {"health": dcgm.health and hook == "health", "diag": hook in dcgm.diag}
    return {
        f"dcgm:{name}": ("dcgm", {"ask": name, "tools": tools})
        for name, wanted in asked.items()
        if wanted
    }


def here(environment: Mapping[str, str] = os.environ) -> str:
    """What Slurm calls this node, where it says so; else the host name."""
    return environment.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]


def probes_for(plan: dict[str, Any], profile: str) -> dict[str, Probe]:
    """What is asked besides NVML, by name."""
    rows: dict[str, Row] = plan["probes"][profile]
    return {name: (_reader(module), arguments) for name, (module, arguments) in rows.items()}


def _reader(module: str) -> Callable[..., object]:
    # Each is imported where it is wanted: a millisecond apiece.
    name = f"slurm_resilience.node.probes.{module}"
    __import__(name)
    reader: Callable[..., object] = sys.modules[name].read
    return reader


def nvml_arguments(profile: str) -> dict[str, bool]:
    """How much NVML is asked."""
    whole = profile in {"health", "full"}
    return {"live": whole, "thorough": whole, "processes": profile != "prolog"}


def compiled(node: str) -> dict[str, Any] | None:
    """The plan that somebody left for *node*, where it still fits the configuration file."""
    raw = kept.read(COMPILED) if os.geteuid() == 0 else None
    digest, _, content = (raw or b"").partition(b"\n")
    # A damaged disk flips bits; whoever wants to harm the file and could would be root.
    if not content or digest != _digest(content):
        return None
    try:
        plan: dict[str, Any] = marshal.loads(content)  # noqa: S302
    except (ValueError, EOFError, TypeError):
        return None
    return plan if plan and plan.get("stamp") == stamp(node) else None


def leave(plan: dict[str, Any]) -> None:
    """Leave a plan for the next hook; only root has hooks."""
    if plan["stamp"] is not None:
        content = marshal.dumps(plan)
        kept.write(COMPILED, _digest(content) + b"\n" + content)


def _digest(content: bytes) -> bytes:
    return b"%d %08x" % (len(content), zlib.crc32(content))


def stamp(node: str) -> list[Any] | None:
    """
    What the configuration file is now, and for which node; None for a user.

    To be taken before it is read. The node: its profile is in the plan.
    """
    if os.geteuid() != 0:
        return None
    reader = [__version__, sys.hexversion, node]
    # The change time too: it moves when owner or mode do, which config.load looks at.
    try:
        found = os.stat(places.SITE_CONFIG)
    except OSError:
        return reader
    return [
        *reader, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns,
        found.st_ctime_ns,
    ]  # fmt: skip
