"""The testbed itself: a cluster that behaves like one, breaks as told, and leaves nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import Cluster, TestbedError
from testbed.layout import CHECKOUT, ROOT, Layout
from testbed.ownership import clear, is_up
from testbed.processes import parent
from testbed.state import FREEZER
from tests.missing import missing

pytestmark = pytest.mark.cluster

PYTHON = f"{sys.prefix}/bin/python3"
ECC = """
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(3)
print(pynvml.nvmlDeviceGetCount(), pynvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0))
"""
CONNECT = """
import socket, sys, time
began = time.monotonic()
socket.create_connection((sys.argv[1], 6818), timeout=3).close()
print((time.monotonic() - began) * 1000)
"""


def test_job_runs_on_two_nodes_as_its_user(cluster: Cluster) -> None:
    """An ordinary user's step runs on two machines, each with a name and a boot of its own."""
    shown = cluster.run(
        [
            "srun",
            "-N2",
            "sh",
            "-c",
            "echo $(hostname) $(id -un) $(cat /proc/sys/kernel/random/boot_id)",
        ]
    ).stdout.split()

    assert len({*shown[0::3]}) == 2
    assert {*shown[1::3]} == {"alice"}
    assert len({*shown[2::3]}) == 2


def test_gpu_fault_is_seen_by_unpatched_pynvml(cluster: Cluster) -> None:
    """A job on the node that was broken sees the fault in NVIDIA's own binding; others do not."""
    cluster.nodes["n2"].gpu(3).set(ecc_uncorrected=7)

    seen = {
        node: cluster.run(
            ["srun", "-w", node, "--gres=gpu:1", PYTHON, "-c", ECC]
        ).stdout.split()
        for node in ("n1", "n2")
    }

    assert seen == {"n1": ["8", "0"], "n2": ["8", "7"]}


def test_link_can_be_slow_or_cut(cluster: Cluster) -> None:
    """A delay of 60 ms each way makes a connection take 120 ms; a cut link lets none through."""
    node = cluster.nodes["n2"]

    node.link(delay_ms=60)
    slow_ms = float(cluster.run([PYTHON, "-c", CONNECT, "n2"]).stdout)
    node.link_down()
    cut = cluster.run([PYTHON, "-c", CONNECT, "n2"], check=False)
    node.link_up()
    healed = cluster.run([PYTHON, "-c", CONNECT, "n2"])

    assert slow_ms >= 120
    assert "timed out" in cut.stderr
    assert float(healed.stdout) < slow_ms


def test_power_off_kills_everything_and_power_on_boots_again(cluster: Cluster) -> None:
    """Without power a node has no process; with it again, it takes jobs after a new boot."""
    node = cluster.nodes["n3"]
    boot = ["cat", "/proc/sys/kernel/random/boot_id"]
    before = cluster.run(boot, on="n3").stdout
    job = cluster.sbatch(["-w", "n3", "--wrap", "sleep 600"])
    cluster.wait_for_job(job, "RUNNING")
    sleepers = cluster.wait_for(lambda: node.pids(r"\bsleep 600"), describe="the job's process")

    node.power_off()

    assert not any(Path(f"/proc/{pid}").exists() for pid in sleepers)
    with pytest.raises(TestbedError, match="n3 has no power"):
        cluster.run(boot, on="n3")
    node.power_on()
    assert cluster.run(boot, on="n3").stdout != before
    cluster.reset()
    assert cluster.run(["srun", "-w", "n3", "hostname"]).stdout == "n3\n"


def test_hung_disk_holds_who_looks_until_it_is_gone(cluster: Cluster) -> None:
    """Who looks at a hung file system waits in D state and cannot be killed."""
    node = cluster.nodes["n1"]
    node.hung_disk("/hung")
    looker = cluster.popen(["ls", "/hung/there"], on="n1")
    (pid,) = cluster.wait_for(lambda: node.pids("^ls /hung"), describe="ls")
    cluster.wait_for(lambda: _state(pid) == "D", describe="D state")

    os.kill(pid, signal.SIGKILL)

    cluster.wait_for(lambda: _is_being_killed(pid) and _state(pid) == "D", describe="D again")
    assert looker.poll() is None
    cluster.reset()
    assert not node.pids("^ls /hung")


def test_full_and_read_only_disks_refuse_writes(cluster: Cluster) -> None:
    """Only the node that was broken gets the error that a user would get."""
    node = cluster.nodes["n1"]
    node.small_disk("/scratch")
    node.fill_disk("/scratch")
    node.read_only("/shared")
    script = 'for file in "$@"; do echo x >>"$file"; done'
    write = ["bash", "-c", script, "bash", "/scratch/file", "/shared/home/alice/file"]

    on_n1 = cluster.run(write, on="n1", check=False)
    on_n2 = cluster.run(["touch", "/shared/home/alice/file"], on="n2")

    assert "No space left on device" in on_n1.stderr
    assert "Read-only file system" in on_n1.stderr
    assert on_n2.returncode == 0


def test_reset_gives_the_next_test_a_fresh_cluster(cluster: Cluster) -> None:
    """After a reset there is no job, no fault and no file of before."""
    node = cluster.nodes["n2"]
    (cluster.home("alice") / "left").touch()
    (node.kept / "left").touch()
    node.gpu(0).set(lost=1)
    node.kmsg("NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.")
    cluster.sbatch(["--array=1-9", "--exclusive", "--wrap", "sleep 600"])
    cluster.run(
        ["scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=test"], user="root"
    )

    cluster.reset()

    assert cluster.run(["squeue", "-h"]).stdout == ""
    assert set(cluster.node_states().values()) == {"IDLE"}
    assert not [*cluster.home("alice").iterdir(), *node.kept.glob("left")]
    assert node.gpu(0).state.returns == {}
    assert node.here.kmsg.read_text() == ""


# ── a cluster of one's own ──────────────────────────────────────────────────────────────────


@pytest.fixture
def instance(machine: int) -> Iterator[int]:
    """A number that no cluster has."""
    number = machine + 100
    clear(Layout(number))
    yield number
    clear(Layout(number))


@pytest.mark.parametrize("proctrack", ["linuxproc", "cgroup"])
def test_killed_owner_takes_everything_with_it(instance: int, proctrack: str) -> None:
    """After kill -9 of the owner no process, mount or link is left; `up` works again."""
    if proctrack == "cgroup" and not FREEZER.exists():
        missing("this machine has no cgroup v1 freezer hierarchy")
    layout = Layout(instance)
    links = _links()
    up = ["up", "--nodes=2", "--no-hooks", f"--instance={instance}", f"--proctrack={proctrack}"]
    _testbed(*up)
    cluster = Cluster.attach(instance)
    cluster.sbatch(["-N2", "--wrap", "srun sleep 600"])
    cluster.wait_for(lambda: cluster.nodes["n2"].pids(r"\bsleep 600"), describe="the job")
    owner = int(layout.lock.read_text())
    alive = {pid: _started(pid) for pid in [owner, *_descendants(owner)] if _started(pid)}
    assert len(alive) > 10

    os.kill(owner, signal.SIGKILL)

    cluster.wait_for(
        lambda: not [pid for pid, started in alive.items() if _started(pid) == started],
        timeout_s=10,
        describe="no process left",
    )
    assert not is_up(layout)
    assert str(ROOT) not in Path("/proc/self/mountinfo").read_text()
    assert _links() == links
    _testbed(*up)
    _testbed("down", f"--instance={instance}")
    assert not [*ROOT.glob(f"{instance}*")]
    assert not (FREEZER / layout.cgroup).exists()


def test_cluster_goes_down_with_the_process_that_brought_it_up(instance: int) -> None:
    """A killed test run leaves no cluster behind."""
    program = (
        "from testbed import Cluster; import sys\n"
        f"with Cluster.up(nodes=1, instance={instance}, hooks=False): print('up', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        cluster = Cluster.attach(instance)

        run.kill()

    cluster.wait_for(lambda: not is_up(cluster.layout), 10, "the cluster gone")
    assert not [*ROOT.glob(f"{instance}*")]


def test_refusals_are_one_line(instance: int) -> None:
    """What cannot be done is said in one line with exit status 2."""
    nothing = _testbed("inject", "n1", "link", "down", f"--instance={instance}", check=False)
    many = _testbed("up", "--nodes=0", "--no-hooks", f"--instance={instance}", check=False)

    for done in (nothing, many):
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def _testbed(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "testbed", *words]
    return subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=check)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _is_being_killed(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pending = {line.split(":")[0]: int(line.split()[1], 16) for line in lines if "Pnd" in line}
    return any(mask >> (signal.SIGKILL - 1) & 1 for mask in pending.values())


def _started(pid: int) -> str:
    """When a process began, which tells it from a later one of the same id; empty: it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _descendants(pid: int) -> set[int]:
    """All that a process has started, on whatever side of a namespace."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    found = {pid}
    while fresh := {each for each in pids if each not in found and parent(each) in found}:
        found |= fresh
    return found - {pid}


def _links() -> str:
    return subprocess.run(
        ["ip", "-o", "link"], capture_output=True, text=True, check=True
    ).stdout
