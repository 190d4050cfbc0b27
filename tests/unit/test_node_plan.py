"""Who is asked, by hook: what the settings name, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.config import Config, parse
from slurm_resilience.errors import ConfigError
from slurm_resilience.node.checks import GROUPS
from slurm_resilience.node.plan import plan_of
from slurm_resilience.node.policy.lifting import CENTRAL

EVERYTHING = """
node:
  expect: {services: [nvidia-fabricmanager], modules: [nvidia-peermem], disks: {/scratch: {}}}
  power: {ups: [rack7@nut]}
  dcgm: {health: true, diag: [health, epilog]}
"""


def probes(text: str, hook: str) -> dict[str, tuple[str, dict[str, Any]]]:
    config = parse(text.encode(), Path("config.yaml")) if text else Config()
    rows: dict[str, tuple[str, dict[str, Any]]] = plan_of(config)["probes"][hook]
    return rows


@pytest.mark.parametrize(
    "group",
    ["File systems and drives", "Memory", "Processes, clock and services", "Power and cooling",
     "DCGM"],
)  # fmt: skip
def test_every_check_of_the_host_has_a_probe_that_is_asked(group: str) -> None:
    """Else it could never find anything, and a probe that fails would not be known as its own."""
    asked = {name.partition(":")[0] for name in probes(EVERYTHING, "health")}

    assert {check.probe for check in GROUPS[group].values()} <= asked


def test_a_node_is_given_back_on_all_that_the_prolog_asks() -> None:
    """Else the next prolog would drain it again."""
    links = "node: {expect: {links: {mlx5_0: {}}, disks: {/scratch: {}}}}"

    asked = {name.partition(":")[0] for name in probes(links, "prolog")}

    assert asked | {"nvml"} == CENTRAL


def test_the_prolog_starts_no_tool() -> None:
    """It stays as quick as it is whatever is asked for."""
    assert not [
        name for name, (_, given) in probes(EVERYTHING, "prolog").items() if "tools" in given
    ]


def test_nobody_is_asked_whom_the_settings_do_not_name() -> None:
    """No service manager, no UPS, no DCGM."""
    names = {name.partition(":")[0] for name in probes("", "health")}

    assert not names & {"services", "modules", "ups", "dcgm"}


def test_only_mounts_that_are_named_are_looked_at() -> None:
    """Per-user and container mounts come and go (nhc issue 27): /proc/mounts is not read."""
    looked_at = [
        given["path"]
        for module, given in probes(EVERYTHING, "health").values()
        if module == "disk"
    ]

    assert sorted(looked_at) == ["/dev/shm", "/scratch"]


def test_a_slow_management_controller_can_be_left_alone() -> None:
    """The kernel polls it, at the cost of a core."""
    assert "ipmi" in probes("", "health")
    assert "ipmi" not in probes("node: {power: {ipmi: false}}", "health")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("node: {power: {ups: ['-l@nut']}}", "ups"),
        ("node: {power: {ups: [rack7]}}", "ups"),
        ("node: {expect: {services: ['--all']}}", "services"),
        ("node: {expect: {services: ['nvidia*']}}", "services"),
        ("node: {expect: {modules: ['../../etc']}}", "modules"),
        ("node: {dcgm: {diag: [prolog]}}", "diag"),
        ("paths: {tools: [bin]}", "tools"),
    ],
)
def test_what_would_be_an_option_or_a_path_is_refused(text: str, named: str) -> None:
    """Names of the settings become arguments of a command that root starts."""
    with pytest.raises(ConfigError, match=named):
        parse(text.encode(), Path("config.yaml"))
