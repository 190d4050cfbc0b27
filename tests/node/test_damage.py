"""What users and a failing disk can do to a node's memory and log: the shims as slurmd runs them."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.conftest import PATIENCE_S, Machine

GO_ON, STOP = 0, 1
XID = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, name=p, GPU has fallen off the bus"


@pytest.mark.parametrize(
    "line",
    [
        f"NVRM: Xid (PCI:[27781]: segfault at 0 ip 0 sp 0 error 6 in {XID}[400000+1000]",
        f"overlayfs: failed to resolve '{XID}': -2",
        f"oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/{XID},task=x,pid=4,uid=61001",
    ],
    ids=["process", "file", "cgroup"],
)
def test_a_users_names_in_the_kernel_log_cost_no_node(machine: Machine, line: str) -> None:
    """The kernel writes down what users call their things."""
    machine.log(line)

    for hook in ("prolog", "health", "prolog"):
        done = machine.hook(hook)
        assert (done.returncode, done.stdout) == (GO_ON, "")
        assert "Xid" not in done.stderr


def test_a_users_names_settle_no_fault(machine: Machine) -> None:
    """A file called like the driver's first words is no driver that was loaded again."""
    machine.log(XID)
    machine.log("x[7]: segfault at 0 ip 0 sp 0 error 6 in NVRM: loading NVIDIA UNIX Open[4+1]")

    assert machine.hook("prolog").returncode == STOP


def test_one_file_that_cannot_be_written_is_named(machine: Machine) -> None:
    """What is kept in the others is kept, and nothing worse is said than is true."""
    blocked = machine.state / "fit-gpu"
    blocked.mkdir()
    (blocked / "in-the-way").touch()

    done = machine.hook("prolog")

    assert done.returncode == GO_ON
    assert "/var/lib/slurm-resilience: " in done.stderr
    assert "cannot be kept: fit-gpu" in done.stderr
    assert "no drain will be lifted" not in done.stderr


TWICE_MORE = """sh -c '"$@"; "$@"; "$@"; status=$?
for one in /proc/[0-9]*; do
    [ "$(readlink $one/ns/mnt)" = "$(readlink /proc/self/ns/mnt)" ] &&
        grep -qs "^State:.D" $one/status && echo "$one"
done > {folder}/stuck; exit $status' sh"""


def is_stuck(process: str) -> bool:
    try:
        return "\nState:\tD" in Path(f"{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_mount_that_hangs_keeps_one_process(machine: Machine) -> None:
    """Each further hook says since when, decides the same, and leaves nothing behind."""
    machine.configure("expect: {disks: {/mnt: {}, /tmp: {}}}, budgets: {probe_s: 0.5}")
    hang = (
        f"{{ {sys.executable} -m testbed.hung_disk /mnt 2>/dev/null & echo $! >{machine.folder}/server; }}"
        f" | grep -q -m1 hung"
    )
    try:
        done = machine.hook(
            "prolog",
            before=f"cd {Path(__file__).parents[2]}; {hang}",
            within=TWICE_MORE.format(folder=machine.folder),
        )
    finally:
        os.kill(int((machine.folder / "server").read_text()), signal.SIGKILL)

    assert done.returncode == GO_ON
    assert done.stderr.count("probe-hung disk:/mnt") == 3
    assert done.stderr.count("disk:/mnt is not asked again: process ") == 2
    (stuck,) = (machine.folder / "stuck").read_text().split()
    deadline = time.monotonic() + PATIENCE_S
    while is_stuck(stuck) and time.monotonic() < deadline:
        pass
    assert machine.hook("prolog").stderr == ""
    assert not (machine.state / "hanging").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda plan: plan[: len(plan) // 2],
        lambda plan: plan.replace(b"kernel_log", b"kernel_lof"),
        lambda plan: plan.replace(b"probe_s", b"probe_r"),
        lambda plan: plan.replace(b"kmsg", b"kmsf"),
        lambda plan: plan.partition(b"\n")[2],
        lambda _: b"",
    ],
    ids=["cut short", "a probe", "a key", "a path", "no digest", "empty"],
)
def test_a_damaged_plan_is_made_anew(
    machine: Machine, damage: Callable[[bytes], bytes]
) -> None:
    """A bit that a disk flips neither breaks the hooks nor changes what they look at."""
    assert machine.hook("prolog").returncode == GO_ON
    plan = machine.state / "plan"
    whole = plan.read_bytes()
    plan.write_bytes(damage(whole))
    assert plan.read_bytes() != whole

    done = machine.hook("prolog")

    assert (done.returncode, done.stdout, done.stderr) == (GO_ON, "", "")
    assert plan.read_bytes() == whole
