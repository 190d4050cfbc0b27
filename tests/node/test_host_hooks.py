"""The hooks and what the host's checks make of others' tools: who is asked, and what it costs."""

import time
from pathlib import Path
from typing import Protocol

import pytest

GO_ON, STOP = 0, 1
"""Exit statuses of a shim."""

TOOLS = ("systemctl", "upsc", "dcgmi", "ipmitool", "nvme", "smartctl")
ACTIVE = "LoadState=loaded\\nActiveState=active\\nSubState=running\\n"
FAILED = "LoadState=loaded\\nActiveState=failed\\nSubState=failed\\n"
DIAG = '{"DCGM Diagnostic": {"test_categories": [{"tests": [%s]}]}}'
PASSED = DIAG % '{"name": "software", "results": [{"status": "Pass"}]}'
BROKEN = DIAG % '{"name": "memory", "results": [{"status": "Fail", "entity_id": 1}]}'


class Done(Protocol):
    returncode: int
    stdout: str
    stderr: str


class Machine(Protocol):
    """As conftest has it."""

    folder: Path
    config: Path
    kmsg: Path
    sysfs: Path

    def hook(self, hook: str, **environment: str) -> Done: ...


class Host:
    """The machine, with commands that note that they were started."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.bin = machine.folder / "bin"
        self.bin.mkdir()
        for name in TOOLS:
            self.add(name, "exit 1")

    def add(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\ntouch {self.bin}/{name}.started\n{script}\n")
        path.chmod(0o755)

    def configure(self, text: str) -> None:
        """*text*: what belongs under `node`."""
        paths = f"kmsg: {self.machine.kmsg}, sysfs: {self.machine.sysfs}, tools: [{self.bin}]"
        quiet = "checks: {clock-unsynchronised: off}, grace_s: 0"
        self.machine.config.write_text(f"paths: {{{paths}}}\nnode: {{{quiet}, {text}}}\n")

    def started(self) -> set[str]:
        """The commands started since the last time."""
        found = list(self.bin.glob("*.started"))
        for path in found:
            path.unlink()
        return {path.stem for path in found}


@pytest.fixture
def host(machine: Machine) -> Host:
    return Host(machine)


@pytest.mark.parametrize("hook", ["prolog", "epilog", "health"])
def test_no_tool_is_started_that_nothing_asks_for(host: Host, hook: str) -> None:
    """Installed is not asked for: no drive, no controller, no setting."""
    host.configure("")

    done = host.machine.hook(hook)

    assert done.returncode == GO_ON
    assert "unread" not in done.stderr
    assert host.started() == set()


def test_a_service_that_is_down_stops_the_next_job(host: Host) -> None:
    """Found by the health check, believed by the prolog, and over once it runs."""
    host.configure("expect: {services: [nvidia-fabricmanager]}")
    host.add("systemctl", f"printf '{FAILED}'")

    host.machine.hook("health")
    refused = host.machine.hook("prolog")
    host.add("systemctl", f"printf '{ACTIVE}'")
    host.machine.hook("health")
    taken = host.machine.hook("prolog")

    assert refused.returncode == STOP
    assert "service-down nvidia-fabricmanager: is failed" in refused.stderr
    assert taken.returncode == GO_ON


@pytest.mark.parametrize(
    "script",
    ["trap '' TERM; sleep 600", "echo Failed to connect to bus >&2; exit 1"],
    ids=["hangs", "no bus"],
)
def test_a_service_manager_that_does_not_answer_stops_nobody(host: Host, script: str) -> None:
    """Undecided: said, not believed."""
    host.configure("expect: {services: [nvidia-fabricmanager]}, budgets: {slow_probe_s: 1.5}")
    host.add("systemctl", script)

    done = host.machine.hook("health")

    assert done.returncode == GO_ON
    assert "unknown" in done.stdout + done.stderr
    assert "services" in done.stdout + done.stderr
    assert host.machine.hook("prolog").returncode == GO_ON


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ("diag: [health]", {"health"}),
        ("diag: [epilog]", {"epilog"}),
        ("health: true", {"health"}),
        ("diag: []", set()),
    ],
    ids=["diag in health", "diag in epilog", "watch", "nothing"],
)
def test_dcgm_is_asked_where_it_is_wanted_and_never_in_the_prolog(
    host: Host, settings: str, asked: set[str]
) -> None:
    """In the prolog it has hung whole partitions (aws-parallelcluster issue 6777)."""
    host.configure(f"dcgm: {{{settings}}}")
    host.add("dcgmi", f"echo '{PASSED}'")

    where = set()
    for hook in ("prolog", "health", "epilog"):
        host.machine.hook(hook)
        if "dcgmi" in host.started():
            where.add(hook)

    assert where == asked


def test_a_job_without_gpus_does_not_wait_for_dcgm(host: Host) -> None:
    """Its epilog takes seconds, and says nothing of the processors."""
    host.configure("dcgm: {diag: [epilog]}")

    host.machine.hook("epilog", SLURM_JOB_GPUS="")

    assert "dcgmi" not in host.started()


def test_what_dcgm_finds_stops_the_next_job(host: Host) -> None:
    """Until it passes. A form of its report that is not known stops nobody, and is no pass."""
    host.configure("dcgm: {diag: [health]}")
    told = []
    for said in ('{"DCGM Results": {}}', BROKEN, '{"DCGM Results": {}}', PASSED):
        host.add("dcgmi", f"echo '{said}'; exit 226")
        health = host.machine.hook("health")
        prolog = host.machine.hook("prolog")
        told.append(("unread dcgm:diag" in health.stderr, prolog.returncode))
        assert (prolog.returncode == STOP) == ("dcgm-diag" in prolog.stderr)

    assert told == [(True, GO_ON), (False, STOP), (True, STOP), (False, GO_ON)]


def test_an_engine_that_hangs_costs_its_time_only(host: Host) -> None:
    """nv-hostengine that never answered has drained nodes by their epilog (cluster-toolkit 6230)."""
    host.configure(
        "dcgm: {diag: [epilog, health], health: true}, budgets: {probe_s: 1.5, slow_probe_s: 1.5}"
    )
    host.add("dcgmi", "trap '' TERM; sleep 600")

    for hook in ("epilog", "health"):
        began = time.monotonic()
        done = host.machine.hook(hook)

        assert done.returncode == GO_ON
        assert "probe-hung dcgm:diag" in done.stdout + done.stderr
        assert time.monotonic() - began < 10


def test_a_battery_that_is_nearly_empty_stops_the_next_job(host: Host) -> None:
    """On battery is a warning; a job that starts now would be lost in minutes."""
    host.configure("power: {ups: [rack7@nut]}")
    host.add("upsc", "echo 'ups.status: OB DISCHRG'; echo 'battery.charge: 71'")
    warned = host.machine.hook("health")
    taken = host.machine.hook("prolog")

    host.add("upsc", "echo 'ups.status: OB LB'; echo 'battery.charge: 9'")
    host.machine.hook("health")
    refused = host.machine.hook("prolog")

    assert "ups-on-battery rack7@nut: on battery, 71 % left" in warned.stdout + warned.stderr
    assert taken.returncode == GO_ON
    assert refused.returncode == STOP
    assert "ups-low rack7@nut" in refused.stderr
