"""What the host's probes make of /proc and sysfs, as files of the test's own and as they are."""

import ctypes.util
import os
import subprocess
import sys
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


def test_traffic_is_counted_on_hardware_only(tmp_path: Path) -> None:
    """A bridge shows the bytes of its port once more."""
    (tmp_path / "loadavg").write_text("3.10 48.50 2.00 2/2841 99\n")
    for name in ("eth0", "docker0"):
        statistics = tmp_path / "class/net" / name / "statistics"
        statistics.mkdir(parents=True)
        for direction in ("rx", "tx"):
            (statistics / f"{direction}_bytes").write_text("1000\n")
    (tmp_path / "class/net/eth0/device").mkdir()

    found = load.read(str(tmp_path), str(tmp_path))

    assert found["network_bytes"] == 2000
    assert found["load"] == 48.5
    assert found["cpus"] == os.cpu_count()


def test_a_machine_without_network_hardware_has_no_traffic(tmp_path: Path) -> None:
    """Not zero bytes: none, and why."""
    assert list(load.read("/proc", str(tmp_path))["unread"]) == ["network_bytes"]


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
print(disk.read(sys.argv[1], proc="/proc", enough_gib=10))' "$2"
"""


def test_a_mount_that_lost_its_server_is_stale(tmp_path: Path) -> None:
    """An answer of the file system, and not a reading that failed."""
    if os.geteuid() != 0:
        missing("needs root, to mount")
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
    assert "'type': 'fuse" in done.stdout


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
        "shm": disk.read("/dev/shm", proc="/proc", enough_gib=10),
        "memory": memory.read("/proc", str(tmp_path)),
    }

    facts = assemble({"node": "n1"}, answers, {}, ())

    assert facts.load
    assert facts.load.load >= 0
    assert facts.processes
    assert facts.processes.threads
