"""What the host's probes make of /proc and sysfs, as files of the test's own and as they are."""

import ctypes.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_resilience.node.facts import assemble
from slurm_resilience.node.probes import (
    clock,
    disk,
    hwmon,
    libraries,
    load,
    memory,
    modules,
    processes,
    raid,
)
from testbed import sysfs
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
        stack: str = "", command: str = "", threads: int = 1,
    ) -> None:  # fmt: skip
        """*folder*: where it is, for a thread: `12/task/13`."""
        for at in [folder] if folder else [str(pid), f"{pid}/task/{pid}"]:
            self._thread(pid, name, state, at, opens, stack, command, threads)

    def _thread(  # noqa: PLR0913, PLR0917 - as above
        self, pid: int, name: str, state: str, at: str, opens: str, stack: str, command: str,
        threads: int,
    ) -> None:  # fmt: skip
        self.write(
            f"{at}/stat",
            f"{pid} ({name}) {state} 1 {pid} {pid} 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 {threads} 0 7\n",
        )
        self.write(
            f"{at}/status",
            f"Name:\t{name}\nState:\t{state}\nvoluntary_ctxt_switches:\t90\n"
            "nonvoluntary_ctxt_switches:\t2\n",
        )
        self.write(f"{at}/stack", stack)
        self.write(f"{at}/cmdline", command)
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


def test_traffic_is_counted_on_hardware_only(proc: Proc, tmp_path: Path) -> None:
    """A bridge shows the bytes of its port once more."""
    for name in ("eth0", "docker0"):
        for direction in ("rx", "tx"):
            proc.write(f"class/net/{name}/statistics/{direction}_bytes", "1000\n")
    (tmp_path / "class/net/eth0/device").mkdir()

    found = load.read(str(proc.root), str(tmp_path))

    assert found["network_bytes"] == 2000
    assert found["load"] == 48.5
    assert found["cpus"] == os.cpu_count()


def test_a_machine_without_network_hardware_has_no_traffic(proc: Proc, tmp_path: Path) -> None:
    """Not zero bytes: none, and why."""
    assert list(load.read(str(proc.root), str(tmp_path / "none"))["unread"]) == [
        "network_bytes"
    ]


def test_the_kernels_clock_is_asked() -> None:
    """As anybody may; what nobody steers has no offset."""
    found = clock.read()

    assert isinstance(found["synchronised"], bool)
    assert (found["offset_s"] is None) == (not found["synchronised"])


@pytest.mark.parametrize("name", ["nvidia-peermem", "nvidia_peermem"])
def test_a_module_is_found_by_either_spelling(tmp_path: Path, name: str) -> None:
    """modprobe takes a dash; sysfs shows none."""
    (tmp_path / "module/nvidia_peermem").mkdir(parents=True)

    assert modules.read([name, "gdrdrv"], str(tmp_path)) == {name: True, "gdrdrv": False}


def test_a_machine_that_shows_no_modules_decides_nothing(tmp_path: Path) -> None:
    """A container without sysfs is no node without its modules."""
    with pytest.raises(FileNotFoundError):
        modules.read(["nvidia-peermem"], str(tmp_path))


LIBRARIES = f"""
import sys
from slurm_resilience.node.probes import libraries
print({{one["name"]: one for one in libraries.read()}}[{libraries.NAMES[1]!r}])
"""


def test_a_library_is_loaded_and_not_only_looked_for(tmp_path: Path) -> None:
    """A file of size 0 is there for whoever asks only that (soperator issue 2675)."""
    (tmp_path / "libcuda.so.1").touch()

    done = subprocess.run(
        [sys.executable, "-c", LIBRARIES],
        env={"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "file too short" in done.stdout
    assert "'empty': True" in done.stdout


def test_a_driver_that_is_not_installed_has_no_libraries() -> None:
    """No card, no driver, no fault."""
    if ctypes.util.find_library("cuda"):
        pytest.skip("the NVIDIA driver is installed here")

    assert "libcuda.so.1" not in {one["name"] for one in libraries.read()}


MDSTAT = "Personalities : [raid1] [raid0]\n{}\nunused devices: <none>\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            "md0 : active raid1 nvme1n1p2[1] nvme0n1p2[0]\n"
            "      937692352 blocks super 1.2 [2/2] [UU]\n"
            "      bitmap: 3/7 pages [12KB], 65536KB chunk\n",
            ("active", "raid1", 0, [], False),
            id="whole",
        ),
        pytest.param(
            "md0 : active raid1 nvme1n1p2[1](F) nvme0n1p2[0]\n"
            "      937692352 blocks super 1.2 [2/1] [U_]\n",
            ("active", "raid1", 1, ["nvme1n1p2"], False),
            id="one failed",
        ),
        pytest.param(
            "md0 : active raid1 sdc2[2] sda2[0]\n"
            "      488253440 blocks super 1.2 [2/1] [U_]\n"
            "      [=>...................]  recovery =  8.5% (41587200/488253440) finish=37.1min\n",
            ("active", "raid1", 1, [], True),
            id="being rebuilt",
        ),
        pytest.param(
            "md1 : active (auto-read-only) raid1 sdb3[1] sda3[0]\n"
            "      4189184 blocks super 1.2 [2/2] [UU]\n",
            ("active", "raid1", 0, [], False),
            id="not yet written to",
        ),
        pytest.param(
            "md1 : broken raid0 nvme3n1[1] nvme2n1[0]\n      7501476864 blocks super 1.2\n",
            ("broken", "raid0", 0, [], False),
            id="stripes that lost a member",
        ),
        pytest.param(
            "md1 : inactive nvme2n1[0](S)\n      3750738432 blocks super 1.2\n",
            ("inactive", "", 0, [], False),
            id="not started",
        ),
    ],
)
def test_an_array_is_read(
    tmp_path: Path, text: str, found: tuple[str, str, int, list[str], bool]
) -> None:
    """As /proc/mdstat has shown it."""
    (tmp_path / "mdstat").write_text(MDSTAT.format(text))

    (array,) = raid.read(str(tmp_path))

    names = ("state", "level", "missing", "failed", "recovering")
    assert tuple(array[name] for name in names) == found


def test_a_container_of_arrays_is_none(tmp_path: Path) -> None:
    """Metadata of a mainboard's RAID shows as an array that is never started."""
    (tmp_path / "mdstat").write_text(
        MDSTAT.format(
            "md126 : active raid1 sda[1] sdb[0]\n"
            "      468851712 blocks super external:/md127/0 [2/2] [UU]\n\n"
            "md127 : inactive sda[1](S) sdb[0](S)\n"
            "      6306 blocks super external:imsm\n"
        )
    )

    assert [array["name"] for array in raid.read(str(tmp_path))] == ["md126"]


def test_a_kernel_without_raid_has_no_arrays(tmp_path: Path) -> None:
    """No /proc/mdstat."""
    assert raid.read(str(tmp_path)) == []


def hwmon_chip(root: Path, number: int, **files: str) -> None:
    folder = root / f"class/hwmon/hwmon{number}"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def test_a_power_supply_of_the_kernels_is_read(tmp_path: Path) -> None:
    """Its input and its fan, each with the alarms that it raises."""
    hwmon_chip(
        tmp_path, 4, name="dps650ab", in1_label="vin", in1_lcrit_alarm="1", in1_crit_alarm="0",
        fan1_alarm="0", fan1_fault="1",
    )  # fmt: skip

    supply, fan = hwmon.read(str(tmp_path))

    assert supply == {
        "name": "dps650ab-hwmon4", "kind": "power-supply", "status": "alarm",
        "says": "in1_lcrit_alarm",
    }  # fmt: skip
    assert (fan["kind"], fan["says"]) == ("fan", "fan1_fault")


def test_a_boards_own_monitor_is_not_believed(tmp_path: Path) -> None:
    """It raises an alarm for each fan that nobody connected."""
    hwmon_chip(tmp_path, 2, name="nct6798", in1_label="in1", fan1_alarm="1", in1_alarm="1")

    assert hwmon.read(str(tmp_path)) == []


def test_memory_that_was_taken_out_of_use_is_read(tmp_path: Path) -> None:
    """Poisoned pages from /proc/meminfo, machine checks of the processor that had most."""
    (tmp_path / "meminfo").write_text(
        "MemTotal: 1056784384 kB\nMemAvailable: 1026784384 kB\nHardwareCorrupted: 8 kB\n"
    )
    (tmp_path / "interrupts").write_text(
        "           CPU0       CPU1\n"
        "  0:         36          0   IO-APIC   2-edge      timer\n"
        "THR:          0          0   Threshold APIC interrupts\n"
        "MCE:          1          2   Machine check exceptions\n"
        "MCP:        288        288   Machine check polls\n"
    )

    found = memory.read(str(tmp_path), str(tmp_path))

    assert (found["poisoned_kib"], found["machine_checks"]) == (8, 2)


def test_the_module_that_makes_errors_is_named(tmp_path: Path) -> None:
    """As the board calls it, else by its place; one without errors is left out."""
    sysfs.write_healthy(tmp_path)
    for place, label, corrected in (
        ("dimm0", "CPU_SrcID#0_MC#0_Chan#0_DIMM#0", 4),
        ("dimm1", "CPU_SrcID#0_MC#0_Chan#1_DIMM#0", 0),
        ("rank3", "", 2),
    ):
        folder = tmp_path / "devices/system/edac/mc/mc0" / place
        folder.mkdir()
        (folder / "dimm_label").write_text(f"{label}\n")
        (folder / "dimm_ce_count").write_text(f"{corrected}\n")
        (folder / "dimm_ue_count").write_text("0\n")

    dimms = memory.read("/proc", str(tmp_path))["dimms"]

    assert [(one["label"], one["corrected"]) for one in dimms] == [
        ("CPU_SrcID#0_MC#0_Chan#0_DIMM#0", 4),
        ("mc0/rank3", 2),
    ]


LOST = """
cd "$0"
{ "$1" -m testbed.hung_disk "$2" & echo $! >"$2.pid"; } | grep -q -m1 hung
kill -9 "$(cat "$2.pid")"
exec "$1" -c 'import sys
from slurm_resilience.node.probes import disk
print(disk.read(sys.argv[1]))' "$2"
"""


def test_a_mount_that_lost_its_server_is_stale(tmp_path: Path) -> None:
    """An answer of the file system, and not a reading that failed."""
    as_root()
    mount = tmp_path / "mount"
    mount.mkdir()
    private = ["/usr/bin/unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec"]

    done = subprocess.run(
        [*private, LOST, PROJECT, sys.executable, mount],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    assert "Transport endpoint is not connected" in done.stdout


def test_a_healthy_machine_is_read_whole(tmp_path: Path) -> None:
    """The answers of this machine, and of what the testbed shows as healthy, make facts."""
    sysfs.write_healthy(tmp_path)
    answers = {
        "hwmon": hwmon.read(str(tmp_path)),
        "load": load.read("/proc", str(tmp_path)),
        "processes": processes.read("/proc"),
        "clock": clock.read(),
        "libraries": libraries.read(),
        "raid": raid.read("/proc"),
        "shm": disk.read("/dev/shm"),
        "memory": memory.read("/proc", str(tmp_path)),
    }

    facts = assemble({"node": "n1"}, answers, {}, ())

    assert facts.load
    assert facts.load.load >= 0
    assert facts.processes
    assert facts.processes.threads
