"""What the probes make of sysfs, the kernel's log and /proc, as files of the test's own."""

import os
from pathlib import Path

import pytest

from slurm_resilience.node.probes import kernel_log, memory, network
from testbed import sysfs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    sysfs.write_healthy(tmp_path / "sys")
    return tmp_path / "sys"


def test_a_port_and_an_interface_are_read(root: Path) -> None:
    """Names as NCCL and ip use them, rates in Gb/s, states in the kernel's own words."""
    port, interface = network.read(str(root), ["mlx5_0:1", "eth0"])

    assert (port["state"], port["physical_state"], port["rate_gbps"]) == (
        "ACTIVE",
        "LinkUp",
        400,
    )
    assert (interface["state"], interface["rate_gbps"]) == ("UP", 100)


def test_an_absent_link_is_absent(root: Path) -> None:
    """An adapter that is gone from sysfs is a fact, not an error."""
    assert network.read(str(root), ["mlx5_9:1", "eth9"]) == [
        {"name": "mlx5_9:1", "present": False},
        {"name": "eth9", "present": False},
    ]


def test_everything_holds_what_was_asked_for_too(root: Path) -> None:
    """Adapters that nobody named are shown; links of software are not, unless named."""
    (root / "class/net/docker0").mkdir()

    names = [link["name"] for link in network.read(str(root), ["eth0"], everything=True)]

    assert names == ["eth0", "mlx5_0:1"]


def test_a_figure_that_is_none_is_no_zero(root: Path) -> None:
    """Some drivers write nothing where a number should be."""
    (root / "class/infiniband/mlx5_0/ports/1/rate").write_text("")

    (port,) = network.read(str(root), ["mlx5_0:1"])

    assert port["rate_gbps"] is None


def test_a_file_that_is_missing_is_unread(root: Path) -> None:
    """What the driver does not offer stands under unread, with why."""
    (root / "class/infiniband/mlx5_0/ports/1/rate").unlink()

    (port,) = network.read(str(root), ["mlx5_0:1"])

    assert port["rate_gbps"] is None
    assert port["unread"] == {"rate_gbps": "No such file or directory"}


def test_the_kernel_log_is_selected_and_joined(tmp_path: Path) -> None:
    """Records without a mark, torn ones and a device's dictionary are left out."""
    log = tmp_path / "kmsg"
    log.write_text(
        "6,1,0,-;Linux version 6.1\n"
        "4,17,1200000,-;NVRM: The NVIDIA GPU 0000:b3:00.0\\x0aNVRM: fallen off the bus\n"
        " SUBSYSTEM=pci\n"
        "4,18,12;NVRM torn\n"
        "NVRM without a head\n"
        "4,x,y,-;NVRM: nonsense\n"
        "4,19,1300000,-;NVRM: Xid (PCI:0000:b3:00): 79, GPU has fallen off the bus.\n"
    )

    records = kernel_log.read(str(log))

    assert [(number, at) for number, at, _ in records] == [
        (17, 1200000),
        (18, 12),
        (19, 1300000),
    ]
    assert records[0][2] == "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: fallen off the bus"


STORMS = {
    "adapter": "mlx5_core 0000:d2:00.0: device's health compromised - reached miss count.",
    "counters that an adapter does not have": (
        "mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 7): ACCESS_REG(0x805) op_mod(0x1) failed,"
        " status bad resource(0x5), syndrome (0x305684), err(-22)"
    ),
    "corrected bus errors": (
        "nvidia 0000:04:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer"
    ),
    "corrected memory errors": "EDAC MC1: 1 CE memory scrubbing error on CPU_SrcID#1",
}


@pytest.mark.parametrize("line", STORMS.values(), ids=STORMS)
@pytest.mark.parametrize("everything", [False, True], ids=["prolog", "health"])
def test_no_storm_drives_out_another_fault(
    tmp_path: Path, line: str, *, everything: bool
) -> None:
    """A GPU that was lost yesterday is lost, whatever is being written since."""
    log = tmp_path / "kmsg"
    storm = "".join(f"4,{n},0,-;{line}\n" for n in range(2, 2 * kernel_log.MOST_RECORDS + 9))
    log.write_text(f"4,1,0,-;NVRM: Xid (PCI:0000:b3:00): 79, GPU has fallen off\n{storm}")

    numbers = [number for number, _, _ in kernel_log.read(str(log), everything=everything)]

    assert numbers[0] == 1
    assert numbers == sorted(numbers)
    assert len(numbers) <= kernel_log.MOST_RECORDS + 1


@pytest.mark.parametrize("line", [STORMS["counters that an adapter does not have"]])
def test_noise_leaves_a_prologs_answer_as_it_was(tmp_path: Path, line: str) -> None:
    """What changes with each look would have to be judged anew each time."""
    log = tmp_path / "kmsg"
    log.write_text("4,1,0,-;NVRM: loading NVIDIA UNIX Open Kernel Module\n")
    before = kernel_log.read(str(log))
    with log.open("a") as file:
        file.write(f"4,2,0,-;{line}\n")

    assert kernel_log.read(str(log)) == before


def test_the_newest_records_stay(tmp_path: Path) -> None:
    """A log larger than what is kept loses its beginning."""
    log = tmp_path / "kmsg"
    total = kernel_log.MOST_RECORDS + 5
    log.write_text("".join(f"4,{number},0,-;NVRM: line\n" for number in range(total)))

    records = kernel_log.read(str(log))

    assert len(records) == kernel_log.MOST_RECORDS
    assert records[-1][0] == total - 1


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="needs to read /dev/kmsg")
def test_the_ring_buffer_is_read_to_its_end() -> None:
    """The real device gives record by record, and its end is not waited for."""
    assert isinstance(kernel_log.read("/dev/kmsg"), list)


def test_memory_is_read(root: Path) -> None:
    """Sizes of this machine, error counts of all controllers together."""
    controller = root / "devices/system/edac/mc/mc1"
    controller.mkdir()
    (controller / "ue_count").write_text("2\n")

    found = memory.read("/proc", str(root))

    assert found["total_mib"] > 0
    assert (found["uncorrected"], found["corrected"]) == (2, 0)


def test_a_machine_without_edac_has_no_counts(tmp_path: Path) -> None:
    """No driver, no count: not zero errors."""
    found = memory.read("/proc", str(tmp_path))

    assert found["uncorrected"] is None
    assert found["unread"]["uncorrected"] == "not supported"
