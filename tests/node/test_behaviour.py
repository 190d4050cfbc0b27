"""Switches, the first minutes, a Slurm that hangs, and hooks that are killed: the shims as slurmd runs them."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from testbed import nvml
from tests.node.conftest import SHARE, Machine

GO_ON, STOP = 0, 1
USER = 61001
COMMAND = Path(sys.executable).with_name("slurm-resilience")
HEALTHY = nvml.h100s(2)


def second(**changes: object) -> tuple[nvml.GpuState, ...]:
    return (HEALTHY[0], msgspec.structs.replace(HEALTHY[1], **changes))


BROKEN = second(remapped_rows=(0, 513, False, True))


def uncorrected(machine: Machine) -> None:
    """A fault of the host's memory, which only the health check looks for."""
    (machine.sysfs / "devices/system/edac/mc/mc0/ue_count").write_text("1\n")


# ── switched off at three in the morning ────────────────────────────────────────────────────


def test_one_file_switches_one_check_off(machine: Machine) -> None:
    """At once and said; and on again without a memory of the time between."""
    machine.show(BROKEN)
    assert machine.hook("prolog").returncode == STOP
    (machine.state / "off").mkdir()
    (machine.state / "off/row-remap-failed").touch()

    for _ in range(2):
        done = machine.hook("prolog")
        assert done.returncode == GO_ON
        assert "switched off on this node: row-remap-failed" in done.stderr

    (machine.state / "off/row-remap-failed").unlink()
    assert machine.hook("prolog").returncode == STOP


def test_a_command_does_the_same(machine: Machine) -> None:
    """It names the file, and refuses what is no check."""
    machine.show(BROKEN)

    done = machine.hook("prolog", before=f"{COMMAND} node off row-remap-failed")
    assert done.returncode == GO_ON
    assert "/var/lib/slurm-resilience/off/row-remap-failed" in done.stdout
    done = machine.hook("prolog", before=f"{COMMAND} node on row-remap-failed")
    assert done.returncode == STOP

    refused = machine.hook("prolog", before=f"{COMMAND} node off row-remap-faild || true")
    assert "no check 'row-remap-faild'; is it row-remap-failed" in refused.stderr
    assert refused.returncode == STOP


def test_all_hooks_by_one_word(machine: Machine) -> None:
    """And back; a check that was off alone stays off, and is named."""
    machine.show(BROKEN)

    off = machine.hook(
        "prolog", before=f"{COMMAND} node off all; {COMMAND} node off leftover-process"
    )
    on = machine.hook("prolog", before=f"{COMMAND} node on all")

    assert (off.returncode, on.returncode) == (GO_ON, STOP)
    assert "still off: leftover-process" in on.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_an_ordinary_user_switches_nothing() -> None:
    """Said in one line that names the file."""
    done = subprocess.run(
        [
            "setpriv",
            "--reuid=61001",
            "--regid=61001",
            "--clear-groups",
            COMMAND,
            "node",
            "off",
            "xid",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "only root can switch checks" in done.stderr
    assert done.stderr.count("\n") == 1


def test_check_shows_what_is_off(machine: Machine) -> None:
    """Nobody has to wonder why nothing is found."""
    (machine.state / "off").mkdir()
    (machine.state / "off/xid").touch()

    done = machine.hook("prolog", before=f"{COMMAND} check --profile prolog || true")

    assert "off  xid, by a file on this node" in done.stdout


def test_who_learns_is_told_what_could_not_be_seen(machine: Machine) -> None:
    """Not of a warning, which hinders nobody."""
    machine.kmsg.unlink()

    done = machine.hook("prolog", before=f"{COMMAND} facts --learn || true")

    assert "is undecided, learn on a good node: unread kernel_log: " in done.stderr


@pytest.mark.parametrize("who", ["file", "folder", "link"])
def test_a_switch_that_others_could_set_counts_for_nothing(machine: Machine, who: str) -> None:
    """A user must not be able to let jobs onto a broken node."""
    machine.show(BROKEN)
    folder, switch = machine.state / "off", machine.state / "off/row-remap-failed"
    folder.mkdir()
    if who == "link":
        switch.symlink_to("/etc/passwd")
    else:
        switch.touch()
        os.chown({"file": switch, "folder": folder}[who], USER, USER)

    assert machine.hook("prolog").returncode == STOP


def test_a_switch_for_everything_that_others_could_set_is_said_and_ignored(
    machine: Machine,
) -> None:
    """Nor is the one for all hooks a user's to set."""
    machine.show(BROKEN)
    (machine.state / "disabled").touch()
    os.chown(machine.state / "disabled", USER, USER)

    done = machine.hook("prolog")

    assert done.returncode == STOP
    assert "/var/lib/slurm-resilience/disabled does not count" in done.stderr


@pytest.mark.parametrize("by", ["configuration", "file"])
def test_a_check_that_is_off_is_off_for_what_was_found_before(
    machine: Machine, by: str
) -> None:
    """The prolog takes the last health check's word, but not on what nobody wants to hear."""
    uncorrected(machine)
    machine.hook("health")
    assert machine.hook("prolog").returncode == STOP

    if by == "file":
        (machine.state / "off").mkdir()
        (machine.state / "off/memory-uncorrected").touch()
    else:
        machine.configure("checks: {memory-uncorrected: off}")

    assert machine.hook("prolog").returncode == GO_ON


def test_a_check_set_to_warn_does_not_stop_a_job(machine: Machine) -> None:
    """Shadow mode for one check: found, said, and no more."""
    uncorrected(machine)
    machine.hook("health")
    machine.configure("checks: {memory-uncorrected: warn}")

    done = machine.hook("prolog")

    assert done.returncode == GO_ON
    assert "warn: memory-uncorrected" in done.stderr


# ── the first minutes after boot ────────────────────────────────────────────────────────────


def up_for(seconds: float) -> str:
    """A command that runs another on a machine that booted *seconds* ago."""
    offset = int(seconds - time.clock_gettime(time.CLOCK_BOOTTIME))
    return f"unshare --time --boottime={offset} --fork --kill-child"


@pytest.mark.parametrize(
    ("up_s", "status"), [(30, GO_ON), (180, STOP)], ids=["just-booted", "up"]
)
def test_a_link_has_two_minutes_to_come_up(machine: Machine, up_s: float, status: int) -> None:
    """slurmd is there before the fabric; until then it is said, and decides nothing."""
    machine.configure("expect: {links: {eth0: {}}}")
    (machine.sysfs / "class/net/eth0/carrier").write_text("0\n")

    done = machine.hook("prolog", within=up_for(up_s))

    assert done.returncode == status
    assert "link-down eth0" in done.stderr
    assert ("it may still come" in done.stderr) == (status == GO_ON)


def test_what_the_first_health_check_missed_stops_nobody_later(machine: Machine) -> None:
    """The prolog must not take the word of a health check that ran before the mount did."""
    machine.configure("expect: {links: {eth0: {}}, services: [nobody-has-this.service]}")

    machine.hook("health", within=up_for(30))

    assert machine.hook("prolog", within=up_for(180)).returncode == GO_ON


def test_no_waiting_mends_a_gpu(machine: Machine) -> None:
    """What does not heal by itself counts from the first second."""
    machine.show(BROKEN)

    assert machine.hook("prolog", within=up_for(30)).returncode == STOP


# ── Slurm ───────────────────────────────────────────────────────────────────────────────────


HANGS = "trap '' TERM INT HUP\nsleep 40 &\nwait\nsleep 40"
"""Ignores what it can, and leaves a child that holds its output open."""


def slurm_commands(machine: Machine, body: str) -> Path:
    """scontrol and sinfo that note that they were called and do *body*; the file with the notes."""
    folder, calls = machine.folder / "bin", machine.folder / "calls"
    folder.mkdir()
    for name in ("scontrol", "sinfo"):
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{shlex.quote(str(calls))}\n{body}\n')
        path.chmod(0o755)
    machine.config.write_text(
        f"slurm: {{bin_dir: {folder}}}\n"
        f"paths: {{kmsg: {machine.kmsg}, sysfs: {machine.sysfs}}}\n"
    )
    return calls


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_a_healthy_node_asks_slurm_nothing(machine: Machine, hook: str) -> None:
    """A thousand prologs at once must not be a thousand questions to slurmctld."""
    calls = slurm_commands(machine, "exit 1")

    for _ in range(2):
        assert machine.hook(hook).returncode == GO_ON

    assert not calls.exists()


@pytest.mark.parametrize(
    ("hook", "status"), [("prolog", STOP), ("epilog", STOP), ("health", GO_ON)]
)
def test_a_slurm_that_hangs_is_not_waited_for(machine: Machine, hook: str, status: int) -> None:
    """Neither are its commands' children, which ignore every signal and hold its output."""
    calls = slurm_commands(machine, HANGS)
    machine.show(BROKEN)
    began = time.monotonic()

    done = machine.hook(hook)

    assert time.monotonic() - began < 10
    assert done.returncode == status
    assert "no answer in" in done.stderr
    assert "scontrol" in calls.read_text()


def test_everything_hangs_at_once(machine: Machine) -> None:
    """Driver, file system and Slurm: the budget of the hook holds, and what is known decides."""
    slurm_commands(machine, HANGS)
    extra = "node: {expect: {links: {eth0: {}}, disks: {/mnt: {}}}, budgets: {probe_s: 1}}\n"
    machine.config.write_text(machine.config.read_text() + extra)
    machine.show(second(hangs={"nvmlDeviceGetUUID": ""}))
    (machine.sysfs / "class/net/eth0/carrier").write_text("0\n")
    server = machine.folder / "server"
    hang = (
        f"cd {Path(__file__).parents[2]}; {{ {sys.executable} -m testbed.hung_disk /mnt 2>/dev/null &"
        f" echo $! >{server}; }} | grep -q -m1 hung"
    )
    began = time.monotonic()
    try:
        done = machine.hook("prolog", before=hang)
    finally:
        os.kill(int(server.read_text()), 9)

    assert time.monotonic() - began < 12
    assert done.returncode == STOP
    for said in ("probe-hung nvml", "probe-hung disk:/mnt", "link-down eth0", "no answer in"):
        assert said in done.stderr


# ── killed at any moment ────────────────────────────────────────────────────────────────────


def kill_after(seconds: Sequence[float], hook: str) -> str:
    """Lines that start a hook over and over, and kill it without notice each time."""
    folder = "epilog" if hook == "epilog" else "prolog"
    shim = SHARE / folder / f"slurm-resilience-{hook}"
    return "\n".join(
        f"setsid timeout -s KILL {pause:.3f} env SLURM_JOB_GPUS=0,1 {shim} >/dev/null 2>&1 || true"
        for pause in seconds
    )


@pytest.mark.parametrize("hook", ["prolog", "health"])
def test_a_hook_that_is_killed_leaves_whole_files(machine: Machine, hook: str) -> None:
    """Whatever it was writing: the next hook believes all there is, and judges as ever."""
    machine.show(BROKEN)
    machine.log("NVRM: Xid (PCI:0000:1b:00): 48, pid=7, name=p, Double Bit ECC Error")
    pauses = [0.02 + 0.03 * number for number in range(14)]

    done = machine.hook("prolog", before=kill_after(pauses, hook))

    assert done.returncode == STOP
    assert "row-remap-failed gpu1" in done.stderr
    assert "torn" not in done.stderr
    assert "cannot be kept" not in done.stderr
    whole = list(machine.state.glob("*.json"))
    assert whole
    for path in whole:
        json.loads(path.read_bytes())
    boot, gpus = (machine.state / "known-gpus").read_text().splitlines()
    assert boot == machine.boot_id.read_text().strip()
    assert len(json.loads(gpus)) == len(HEALTHY)


def test_what_another_version_left_costs_nothing(machine: Machine) -> None:
    """A package that was downgraded while the node runs reads what it can."""
    uncorrected(machine)
    machine.hook("health")
    left = machine.state / "slow-findings"
    left.write_text(left.read_text().replace('"subject"', '"of-tomorrow": 1, "subject"'))

    done = machine.hook("prolog")

    assert done.returncode == GO_ON
    assert "Traceback" not in done.stderr


def test_an_earlier_boot_settles_nothing(machine: Machine) -> None:
    """Kernel records are numbered anew: the first prolog must not overlook the new ones."""
    history = '{"boot": "of-before", "settled": 999999}'
    (machine.state / "history.json").write_text(history)
    machine.log("NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.")

    assert machine.hook("prolog").returncode == STOP


def test_a_torn_count_of_drains_is_said_and_not_believed(machine: Machine) -> None:
    """A file system that lost its end costs the count of earlier drains, and nothing else."""
    machine.show(BROKEN)
    torn = machine.state / "strikes.json"
    torn.write_text('[{"check": "row-rem')

    done = machine.hook("prolog")

    assert done.returncode == STOP
    assert "strikes.json: torn, earlier drains are not counted" in done.stderr
