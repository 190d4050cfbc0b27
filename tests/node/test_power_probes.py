"""What tells of a node's power, as ipmitool, upsc and the kernel's hwmon print it."""

from pathlib import Path

import pytest

from slurm_resilience.node.probes import hwmon, ipmi, ups
from tests.stand_ins import Tools

SUPPLIES = """\
Total_Power      | 2Ch | ok  | 23.0 | 165 Watts
PSU0_Supply      | 66h | ok  | 10.0 | Presence detected
PSU1_Supply      | 67h | ok  | 10.1 | Presence detected, Power Supply AC Lost
PSU2_Supply      | 68h | ns  | 10.2 | No Reading
"""
FANS = "FAN1             | 30h | ok  | 29.1 | 8400 RPM\nFAN2 | 31h | cr  | 29.2 | 0 RPM\n"


def test_a_management_controller_is_read(tools: Tools, tmp_path: Path) -> None:
    """Supplies and fans, with its own words."""
    device = tmp_path / "ipmi0"
    device.touch()
    tools.add("ipmitool", FANS, script=f'[ "$3" = Fan ] || {{ echo "{SUPPLIES}"; exit 0; }}')

    found = tools.ask(ipmi.read, devices=[str(device)])

    assert [(one["kind"], one["name"], one["status"], one["says"]) for one in found] == [
        ("power-supply", "Total_Power", "ok", "165 Watts"),
        ("power-supply", "PSU0_Supply", "ok", "Presence detected"),
        ("power-supply", "PSU1_Supply", "ok", "Presence detected, Power Supply AC Lost"),
        ("power-supply", "PSU2_Supply", "ns", "No Reading"),
        ("fan", "FAN1", "ok", "8400 RPM"),
        ("fan", "FAN2", "cr", "0 RPM"),
    ]


def test_without_a_controller_ipmitool_is_not_started(tools: Tools, tmp_path: Path) -> None:
    """It would load its device's modules, and complain."""
    tools.add("ipmitool", script=f"touch {tmp_path}/started")

    assert tools.ask(ipmi.read, devices=[str(tmp_path / "none")]) is None
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("says", "status", "why"),
    [
        (
            "Could not open device at /dev/ipmi0: Input/output error\n",
            1,
            "Could not open device",
        ),
        ("PSU0_Supply, 66h, ok\n", 0, "what is no sensor"),
    ],
    ids=["no answer", "another form"],
)
def test_what_the_controller_does_not_say_is_unread(
    tools: Tools, tmp_path: Path, says: str, status: int, why: str
) -> None:
    """No supply fails because nobody told of it."""
    device = tmp_path / "ipmi0"
    device.touch()
    tools.add("ipmitool", says, status=status)

    with pytest.raises(RuntimeError, match=why):
        tools.ask(ipmi.read, devices=[str(device)])


def test_a_ups_is_read(tools: Tools) -> None:
    """Its status words and what its battery is good for."""
    tools.add(
        "upsc",
        "battery.charge: 71\nbattery.runtime: 1140\ndevice.mfr: EATON\n"
        "ups.status: OB DISCHRG\nups.test.result: Done: passed\n",
        script="echo 'Init SSL without certificate database' >&2",
    )

    assert tools.ask(ups.read, name="rack7@nut") == {
        "name": "rack7@nut", "status": ["OB", "DISCHRG"], "charge_percent": 71.0,
        "runtime_s": 1140.0, "unread": {},
    }  # fmt: skip


@pytest.mark.parametrize("figure", ["nan", "inf", "unknown", ""])
def test_a_figure_that_is_none_is_no_battery(tools: Tools, figure: str) -> None:
    """Status first: a driver that does not know its battery is a driver all the same."""
    tools.add("upsc", f"ups.status: OL\nbattery.charge: {figure}\n")

    found = tools.ask(ups.read, name="rack7@nut")

    assert found["charge_percent"] is None
    assert found["unread"]["charge_percent"] == f"no figure: {figure}"


@pytest.mark.parametrize(
    ("says", "script", "status", "why"),
    [
        ("", "echo 'Error: Data stale' >&2", 1, "Data stale"),
        ("battery.charge: 71\n", "", 0, "no ups.status"),
    ],
    ids=["stale", "no status"],
)
def test_what_nut_does_not_say_is_unread(
    tools: Tools, says: str, script: str, status: int, why: str
) -> None:
    """A UPS that nobody reaches is not on battery."""
    tools.add("upsc", says, script=script, status=status)

    with pytest.raises(RuntimeError, match=why):
        tools.ask(ups.read, name="rack7@nut")


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
