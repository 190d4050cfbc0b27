"""What the probes make of network ports, their modules and the PCIe bus, as files of the test's own."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.node.probes import counters, network, optics, pcie
from testbed import sysfs

PORT = "class/infiniband/mlx5_0/ports/1"
BOOT = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    sysfs.write_healthy(tmp_path / "sys")
    return tmp_path / "sys"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    boot(tmp_path / "proc", BOOT)
    return tmp_path / "proc"


def boot(proc: Path, name: str) -> None:
    file = proc / "sys/kernel/random/boot_id"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{name}\n")


def write(base: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(f"{text}\n")


def counted(root: Path, proc: Path) -> dict[str, dict[str, Any]]:
    memory = str(root.parent / "unsupported")
    return {
        one["name"]: one
        for one in counters.read(str(root), ["mlx5_0:1"], memory=memory, proc=str(proc))
    }


def test_ports_and_interfaces_are_counted(root: Path, proc: Path) -> None:
    """By sysfs's names; an interface counts its link's falls under another one."""
    (root / PORT / "counters/symbol_error").write_text("17\n")

    found = counted(root, proc)

    assert found["mlx5_0:1"]["values"]["symbol_error"] == 17
    assert found["eth0"]["values"] == {
        "link_downed": 1,
        "rx_errors": 0,
        "rx_crc_errors": 0,
        "tx_errors": 0,
    }


def test_what_is_not_supported_is_not_read_again_in_this_boot(root: Path, proc: Path) -> None:
    """Reading it makes some drivers write to the kernel log each time."""
    port = root / PORT / "counters"
    (port / "link_downed").write_text("N/A (no PMA)\n")
    (port / "symbol_error").unlink()
    first = counted(root, proc)["mlx5_0:1"]
    write(port, {"link_downed": "3", "symbol_error": "4"})

    again = counted(root, proc)["mlx5_0:1"]
    boot(proc, "another")
    after_reboot = counted(root, proc)["mlx5_0:1"]

    assert first["unread"]["link_downed"] == "not supported"
    assert again == first
    assert after_reboot["values"]["link_downed"] == 3
    assert after_reboot["values"]["symbol_error"] == 4


def test_a_counter_that_fails_once_is_read_again(root: Path, proc: Path) -> None:
    """Nonsense is no reason to give a counter up."""
    file = root / PORT / "counters/symbol_error"
    file.write_text("oops\n")
    first = counted(root, proc)["mlx5_0:1"]
    file.write_text("4\n")

    assert "oops" in first["unread"]["symbol_error"]
    assert counted(root, proc)["mlx5_0:1"]["values"]["symbol_error"] == 4


def test_memory_that_cannot_be_kept_costs_no_reading(root: Path, proc: Path) -> None:
    """An ordinary user reads the same."""
    memory = "/proc/no/such/folder"

    found = counters.read(str(root), [], memory=memory, proc=str(proc))

    assert {one["name"] for one in found} == {"mlx5_0:1", "eth0"}


def test_virtual_functions_are_left_out_unless_named(root: Path) -> None:
    """They are a guest's or a container's."""
    for name in ("class/net/eth7", "class/infiniband/mlx5_7/ports/1"):
        write(root / name, {"state": "1: DOWN", "carrier": "0"})
    for name in ("class/net/eth7", "class/infiniband/mlx5_7"):
        (root / name / "device").mkdir()
        (root / name / "device/physfn").symlink_to("..")

    write(root / "class/net/eth8", {"device/x": "", "phys_port_name": "pf0vf3"})
    write(root / "class/net/eth9", {"device/x": "", "phys_port_name": "p1"})

    unnamed = [link["name"] for link in network.read(str(root), [], everything=True)]
    named = [link["name"] for link in network.read(str(root), ["eth7"], everything=True)]

    assert unnamed == ["mlx5_0:1", "eth0", "eth9"]
    assert "eth7" in named


def test_a_management_port_is_told_apart(root: Path) -> None:
    """An adapter without RDMA carries no training traffic."""
    write(root / "class/net/eth0", {"duplex": "full"})
    write(root / "class/net/eth1", {"device/infiniband/mlx5_1/x": "", "carrier": "1"})

    links = {link["name"]: link for link in network.read(str(root), [], everything=True)}

    assert (links["eth0"]["rdma"], links["eth1"]["rdma"]) == (False, True)
    assert links["eth0"]["duplex"] == "full"


def test_one_dead_port_hides_no_other(root: Path) -> None:
    """Each file is read by itself."""
    write(root / "class/infiniband/mlx5_1/ports/1", {"state": "1: DOWN"})
    (root / PORT / "state").unlink()
    (root / PORT / "state").mkdir()  # gives an error to whoever reads it

    links = {link["name"]: link for link in network.read(str(root), [], everything=True)}

    assert links["mlx5_0:1"]["state"] is None
    assert links["mlx5_0:1"]["unread"]["state"]
    assert links["mlx5_1:1"]["state"] == "DOWN"
    assert links["eth0"]["state"] == "UP"


# ── PCIe ────────────────────────────────────────────────────────────────────────────────────

GPU = {
    "class": "0x030200", "vendor": "0x10de", "device": "0x2330",
    "current_link_width": "16", "max_link_width": "16",
    "current_link_speed": "2.5 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
    "aer_dev_correctable": "RxErr 3\nBadTLP 1\nTOTAL_ERR_COR 4",
    "aer_dev_nonfatal": "Undefined 0\nTOTAL_ERR_NONFATAL 0",
    "aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0",
}  # fmt: skip


def device(
    root: Path, address: str, files: Mapping[str, str], config: bytes = b"\xde\x10"
) -> Path:
    base = root / "bus/pci/devices" / address
    write(base, files)
    (base / "config").write_bytes(config + b"\0\0\0\0")
    return base


def test_a_gpus_link_is_read(tmp_path: Path) -> None:
    """By address, with AER's totals."""
    device(tmp_path, "0000:1b:00.0", GPU)

    assert pcie.read(str(tmp_path)) == [
        {
            "address": "0000:1b:00.0", "kind": "gpu", "model": "10de:2330",
            "width": 16, "speed_gts": 2.5,
            "all_ones": False, "corrected": 4, "nonfatal": 0, "fatal": 0, "unread": {},
        }
    ]  # fmt: skip


def test_only_gpus_and_adapters_are_read(tmp_path: Path) -> None:
    """No bridge, disk, sound of a GPU, other display or virtual function."""
    device(tmp_path, "0000:00:01.0", {**GPU, "class": "0x060400"})
    device(tmp_path, "0000:1b:00.1", {**GPU, "class": "0x040300"})
    device(tmp_path, "0000:02:00.0", {**GPU, "vendor": "0x1a03"})
    device(tmp_path, "0000:41:00.0", {"class": "0x020700", "vendor": "0x15b3"})
    (device(tmp_path, "0000:41:00.2", {"class": "0x020700"}) / "physfn").symlink_to("..")

    found = [(one["address"], one["kind"]) for one in pcie.read(str(tmp_path))]

    assert found == [("0000:41:00.0", "nic")]


def test_a_device_that_is_gone_reads_as_ones(tmp_path: Path) -> None:
    """lspci shows it as `rev ff`; its link has no width that could be believed."""
    gone = {
        "current_link_width": "255",
        "max_link_width": "255",
        "current_link_speed": "Unknown",
    }
    device(tmp_path, "0000:1c:00.0", {**GPU, **gone}, config=b"\xff" * 64)

    (found,) = pcie.read(str(tmp_path))

    assert found["all_ones"]
    assert (found["width"], found["speed_gts"]) == (None, None)


def test_an_adapter_without_a_link_of_its_own_is_not_unread(tmp_path: Path) -> None:
    """The kernel says Unknown of what sits in the chipset."""
    device(
        tmp_path, "0000:00:1f.6", {**GPU, "class": "0x020000", "current_link_speed": "Unknown"}
    )

    (found,) = pcie.read(str(tmp_path))

    assert (found["speed_gts"], found["unread"]) == (None, {"speed_gts": "not supported"})


def test_a_sleeping_device_is_not_woken(tmp_path: Path) -> None:
    """Its registers are left alone."""
    files = {**GPU, "power/runtime_status": "suspended"}
    device(tmp_path, "0000:1c:00.0", files, config=b"\xff" * 64)

    assert not pcie.read(str(tmp_path))[0]["all_ones"]


def test_what_an_old_kernel_does_not_show_is_not_supported(tmp_path: Path) -> None:
    """AER's totals came with Linux 4.19; a machine without a PCI bus has no devices."""
    device(tmp_path, "0000:1b:00.0", {name: GPU[name] for name in ("class", "vendor")})

    (found,) = pcie.read(str(tmp_path))

    assert found["corrected"] is None
    assert set(found["unread"].values()) == {"not supported"}
    assert pcie.read(str(tmp_path / "none")) == []


def test_this_machines_bus_is_read() -> None:
    """The real thing, whatever it holds."""
    assert isinstance(pcie.read("/sys"), list)


# ── Modules ─────────────────────────────────────────────────────────────────────────────────

MODULE = """\
	Identifier                                : 0x11 (QSFP28)
	Vendor name                               : ACME : alarm systems
	Module temperature                        : 68.12 degrees C / 154.62 degrees F
	Module voltage                            : 3.2918 V
	Laser tx power high alarm   (Channel 1)   : Off
	Laser rx power low alarm    (Channel 1)   : On
	Laser rx power low warning  (Channel 1)   : On
	Module temperature high alarm             : Off
	Rcvr signal avg optical power(Channel 1)  : 0.0000 mW / -inf dBm
	Rcvr signal avg optical power(Channel 2)  : 0.6310 mW / -2.00 dBm
	Module temperature high alarm threshold   : 75.00 degrees C / 167.00 degrees F
	Laser rx power low alarm threshold        : 0.0457 mW / -13.40 dBm
"""


def ethtool(folder: Path, text: str, status: int = 0) -> list[str]:
    """A folder of tools with an ethtool that prints *text* of any module."""
    folder.mkdir()
    (folder / "said").write_text(text)
    script = folder / "ethtool"
    script.write_text(f'#!/bin/sh\n[ "$1" = -m ] && cat {folder}/said\nexit {status}\n')
    script.chmod(0o755)
    return [str(folder)]


def test_a_modules_own_alarms_are_read(root: Path, tmp_path: Path) -> None:
    """Alarms, not warnings and not thresholds; light by lane, none at all as -40 dBm."""
    tools = ethtool(tmp_path / "bin", MODULE)

    assert optics.read(str(root), ["eth0"], tools=tools) == [
        {
            "name": "eth0",
            "temperature_c": 68.12,
            "temperature_limit_c": 75.0,
            "receive_power_dbm": [-40.0, -2.0],
            "alarms": ["Laser rx power low alarm (Channel 1)"],
        }
    ]


def test_a_port_is_asked_through_its_interface(root: Path, tmp_path: Path) -> None:
    """ethtool knows interfaces, NCCL ports."""
    write(root / "class/infiniband/mlx5_0/device/net/ib0", {"x": ""})
    tools = ethtool(tmp_path / "bin", MODULE)

    (module,) = optics.read(str(root), ["mlx5_0:1"], tools=tools)

    assert module["name"] == "mlx5_0:1"


def test_a_copper_cable_has_nothing_to_tell(root: Path, tmp_path: Path) -> None:
    """ethtool's complaint is kept, and is no fault."""
    tools = ethtool(tmp_path / "bin", "netlink error: Invalid argument\n", status=1)

    (module,) = optics.read(str(root), ["eth0"], tools=tools)

    assert module["unread"]["module"].startswith("not supported: ")


def test_no_tool_is_run_for_a_link_that_is_down_or_not_expected(
    root: Path, tmp_path: Path
) -> None:
    """A link without light raises alarms for that alone."""
    tools = ethtool(tmp_path / "bin", MODULE)

    assert optics.read(str(root), [], tools=tools) == []
    (root / "class/net/eth0/carrier").write_text("0\n")
    assert optics.read(str(root), ["eth0"], tools=tools) == []


def test_the_drivers_sensor_is_read_without_any_tool(root: Path) -> None:
    """mlx5 shows the module beside its own chip, with the module's limit."""
    write(
        root / "class/net/eth0/device/hwmon/hwmon3",
        {
            "temp1_label": "asic", "temp1_input": "51000", "temp1_crit": "105000",
            "temp2_label": "Module0", "temp2_input": "71500", "temp2_crit": "80000",
        },
    )  # fmt: skip

    assert optics.read(str(root), [], tools=[]) == [
        {"name": "eth0", "temperature_c": 71.5, "temperature_limit_c": 80.0}
    ]


def test_words_that_nobody_knows_are_nothing(root: Path, tmp_path: Path) -> None:
    """A module that ethtool cannot decode is printed as bytes."""
    tools = ethtool(tmp_path / "bin", "Offset\tValues\n------\t------\n0x0000:\t19 52 04 07\n")

    assert optics.read(str(root), ["eth0"], tools=tools) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="trust is asked of root only")
def test_somebody_elses_tool_is_not_run(root: Path, tmp_path: Path) -> None:
    """Root runs what root installed."""
    tools = ethtool(tmp_path / "bin", MODULE)
    (tmp_path / "bin/ethtool").chmod(0o777)

    assert optics.read(str(root), ["eth0"], tools=tools) == []
