"""Whom the probe of processes calls stuck, in a /proc of the test's own and in the real one."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_resilience.node.probes import processes
from tests.missing import missing

PROJECT = Path(__file__).parents[2]
PATIENCE_S = 30.0


def as_root() -> None:
    if os.geteuid() != 0:
        missing("needs root, to mount")


@pytest.fixture
def hung_tool(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A program named nvidia-smi that waits for a file system that never answers."""
    as_root()
    mount, tool = tmp_path / "mount", tmp_path / "nvidia-smi"
    mount.mkdir()
    shutil.copy("/usr/bin/stat", tool)
    server = subprocess.Popen(
        ["/usr/bin/unshare", "--mount", "--propagation", "private", sys.executable, "-m",
         "testbed.hung_disk", str(mount)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert server.stdout
    assert server.stdout.readline() == "hung\n"
    stuck = subprocess.Popen(
        ["/usr/bin/nsenter", f"--mount=/proc/{server.pid}/ns/mnt", tool, mount],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    status = Path(f"/proc/{stuck.pid}/status")
    until = time.monotonic() + PATIENCE_S
    while "nvidia-smi\n" not in (text := status.read_text()) or "State:\tD" not in text:
        assert time.monotonic() < until, text
    yield stuck
    server.kill()
    server.communicate()
    stuck.wait()


class Proc:
    """A /proc with the processes that a test puts there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("loadavg", "3.10 48.50 2.00 2/2841 99\n")
        self.write("sys/fs/file-nr", "9216\t0\t9223372036854775807\n")
        self.write("sys/kernel/threads-max", "8251000\n")
        self.write("sys/kernel/pid_max", "4194304\n")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def process(  # noqa: PLR0913 - what /proc tells of one
        self, pid: int, name: str, state: str, *, folder: str = "", opens: str = "",
        stack: str = "", command: str = "", threads: int = 1, flags: int = 0x400000,
    ) -> None:  # fmt: skip
        """*folder*: where it is, for a thread: `12/task/13`."""
        files = {
            "stat": f"{pid} ({name}) {state} 1 {pid} {pid} 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0"
            f" {threads} 0 7\n",
            "status": f"Name:\t{name}\nState:\t{state}\nvoluntary_ctxt_switches:\t90\n"
            "nonvoluntary_ctxt_switches:\t2\n",
            "stack": stack,
            "cmdline": command,
        }
        for at in [folder] if folder else [str(pid), f"{pid}/task/{pid}"]:
            for file, text in files.items():
                self.write(f"{at}/{file}", text)
            (self.root / at / "fd").mkdir()
            if opens:
                (self.root / at / "fd" / "3").symlink_to(opens)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


IN_DRIVER = "[<0>] os_acquire_mutex+0x3c/0x50 [nvidia]\n[<0>] nvidia_ioctl+0x1/0x2 [nvidia]\n"
IN_NFS = "[<0>] rpc_wait_bit_killable+0x1e/0xb0 [sunrpc]\n[<0>] nfs_file_fsync+0x1/0x2 [nfs]\n"

Build = Callable[[Proc], None]


@pytest.mark.parametrize(
    ("build", "stuck"),
    [
        pytest.param(
            lambda proc: proc.process(7, "nvidia-smi", "D", stack=IN_DRIVER),
            [(7, "nvidia-smi", "D", True)],
            id="by its name",
        ),
        pytest.param(
            lambda proc: proc.process(7, "python", "D", opens="/dev/nvidia3", stack=IN_NFS),
            [(7, "python", "D", False)],
            id="by the GPU that it holds",
        ),
        pytest.param(
            lambda proc: proc.process(7, "a) D (b", "D", opens="/dev/nvidiactl"),
            [(7, "a) D (b", "D", False)],
            id="with a name that looks like its state",
        ),
        pytest.param(
            lambda proc: proc.process(7, "nvidia-persiste", "Z"),
            [(7, "nvidia-persiste", "Z", None)],
            id="not reaped",
        ),
        pytest.param(
            lambda proc: (
                proc.process(7, "python", "Z", threads=2),
                proc.process(
                    8, "python", "D", folder="7/task/8", opens="/dev/nvidia0", stack=IN_DRIVER
                ),
            ),
            [(8, "python", "D", True)],
            id="dead but for a thread that is stuck",
        ),
        pytest.param(
            lambda proc: (
                proc.process(7, "python", "S", opens="/dev/nvidia0", threads=3),
                proc.process(
                    9,
                    "cuda-EvtHandlr",
                    "D",
                    folder="7/task/9",
                    opens="/dev/nvidia0",
                    stack=IN_DRIVER,
                ),
            ),
            [(9, "python", "D", True)],
            id="alive but for a thread that is stuck",
        ),
        pytest.param(lambda proc: proc.process(7, "cp", "D", stack=IN_NFS), [], id="no GPU's"),
        pytest.param(lambda proc: proc.process(7, "bash", "Z"), [], id="no GPU's, not reaped"),
        pytest.param(lambda proc: proc.process(7, "nvidia-smi", "S"), [], id="asleep"),
        pytest.param(
            lambda proc: proc.process(
                7, "nvidia-modeset/", "D", stack=IN_DRIVER, flags=0x208040
            ),
            [],
            id="the driver's own thread",
        ),
    ],
)
def test_only_the_gpu_stacks_processes_are_stuck(
    proc: Proc, build: Build, stuck: list[tuple[int, str, str, bool | None]]
) -> None:
    """A copy that waits for NFS and somebody's zombie say nothing of the GPUs."""
    build(proc)

    found = processes.read(str(proc.root))["stuck"]

    assert [(one["pid"], one["name"], one["state"], one["in_driver"]) for one in found] == stuck
    assert all(one["switches"] == 92 for one in found)


def test_a_process_that_is_really_stuck_is_seen(hung_tool: "subprocess.Popen[bytes]") -> None:
    """Of this machine's own /proc: nvidia-smi in D state, and nothing of the driver below it."""
    found = {one["pid"]: one for one in processes.read("/proc")["stuck"]}

    assert found[hung_tool.pid]["state"] == "D"
    assert found[hung_tool.pid]["name"] == "nvidia-smi"
    assert not found[hung_tool.pid]["in_driver"]


def test_limits_are_read(proc: Proc) -> None:
    """The lower limit of threads counts."""
    found = processes.read(str(proc.root))

    assert (found["threads"], found["threads_max"]) == (2841, 4194304)
    assert found["files"] == 9216


def test_what_keeps_steps_cgroups_is_no_step(proc: Proc) -> None:
    """`slurmstepd infinity` runs on every idle node with cgroup v2."""
    proc.process(5, "slurmd", "S")
    proc.process(6, "slurmstepd", "S", command="/usr/sbin/slurmstepd\0infinity\0")
    proc.process(7, "slurmstepd", "S", command="slurmstepd: [71.batch]\0")

    found = processes.read(str(proc.root))

    assert (found["slurmd"], found["steps"]) == (True, 1)
