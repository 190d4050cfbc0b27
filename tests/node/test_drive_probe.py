"""What drives say of themselves through nvme-cli and smartctl, as the real ones print it."""

import json
from pathlib import Path

import pytest

from slurm_resilience.node.probes import drives
from tests.stand_ins import Tools, as_root, nvme_drive, scsi_drive

NVME = {
    "critical_warning": 0, "temperature": 310, "avail_spare": 100, "spare_thresh": 10,
    "percent_used": 3, "data_units_read": 1432811, "media_errors": 0, "num_err_log_entries": 4,
}  # fmt: skip
NVME_VERBOSE = {
    **NVME,
    "critical_warning": {"value": 4, "available_spare": 0, "reliability_degraded": 1},
    "media_errors": "17",
}
HEALTHY = {"critical_warning": 0, "percent_used": 3, "media_errors": 0}


@as_root
@pytest.mark.parametrize(
    ("log", "found"),
    [
        pytest.param(NVME, HEALTHY, id="healthy"),
        pytest.param(
            NVME_VERBOSE,
            {"critical_warning": 4, "percent_used": 3, "media_errors": 17},
            id="bits spelt out, figures as words",
        ),
    ],
)
def test_an_nvme_drive_is_read(
    tools: Tools, tmp_path: Path, log: dict[str, object], found: dict[str, int]
) -> None:
    """By nvme-cli, as its versions 1 and 2 print it."""
    nvme_drive(tmp_path, "nvme0")
    nvme_drive(tmp_path, "nvme1", transport="tcp")
    tools.add("nvme", json.dumps(log))

    assert tools.ask(drives.read, sysfs=str(tmp_path)) == [
        {"name": "nvme0", "state": "live", **found}
    ]


@as_root
def test_a_drive_that_answers_in_an_unknown_form_hides_no_other(
    tools: Tools, tmp_path: Path
) -> None:
    """It is unread, and the next one is read."""
    for name in ("nvme0", "nvme1"):
        nvme_drive(tmp_path, name)
    tools.add(
        "nvme",
        json.dumps(NVME),
        script='[ "$2" = /dev/nvme0 ] && { echo \'{"critical": 0}\'; exit 0; }',
    )

    first, second = tools.ask(drives.read, sysfs=str(tmp_path))

    assert "critical_warning" in first["unread"]["health"]
    assert second == {"name": "nvme1", "state": "live", **HEALTHY}


def smart(exit_status: int = 0, **more: object) -> str:
    return json.dumps({"smartctl": {"version": [7, 3], "exit_status": exit_status}, **more})


VIRTUAL = json.dumps(
    {
        "smartctl": {
            "exit_status": 1,
            "messages": [{"string": "/dev/sda: Unable to detect device type"}],
        }
    }
)
NVME_OF_SMARTCTL = {
    "critical_warning": 1, "available_spare": 4, "percentage_used": 101, "media_errors": 2,
}  # fmt: skip


@as_root
@pytest.mark.parametrize(
    ("says", "status", "found"),
    [
        pytest.param(smart(smart_status={"passed": True}), 0, {"passed": True}, id="passed"),
        pytest.param(
            smart(8, smart_status={"passed": False}), 8, {"passed": False}, id="failed"
        ),
        pytest.param(
            VIRTUAL,
            1,
            {"unread": {"health": "not supported: /dev/sda: Unable to detect device type"}},
            id="behind a controller",
        ),
        pytest.param(
            smart(0), 0, {"unread": {"health": "not supported: no SMART status"}}, id="none"
        ),
        pytest.param(
            smart(
                smart_status={"passed": False},
                nvme_smart_health_information_log=NVME_OF_SMARTCTL,
            ),
            0,
            {"passed": False, "critical_warning": 1, "percent_used": 101, "media_errors": 2},
            id="nvme",
        ),
        pytest.param(
            "{}", 0, {"unread": {"health": "unknown form: KeyError('smartctl')"}}, id="?"
        ),
    ],
)
def test_smartctl_is_read(
    tools: Tools, tmp_path: Path, says: str, status: int, found: dict[str, object]
) -> None:
    """Its status says what it found; a drive that it cannot ask is skipped, and said."""
    scsi_drive(tmp_path, "sda")
    scsi_drive(tmp_path, "sdb", removable=1)
    tools.add("smartctl", says, status=status)

    assert tools.ask(drives.read, sysfs=str(tmp_path)) == [
        {"name": "sda", "state": "running", **found}
    ]


def test_without_tools_drives_are_counted_and_not_asked(tools: Tools, tmp_path: Path) -> None:
    """Neither nvme-cli nor smartctl: that they are there is known, and nothing is wrong."""
    nvme_drive(tmp_path, "nvme0")
    scsi_drive(tmp_path, "sda")

    found = tools.ask(drives.read, sysfs=str(tmp_path))

    assert [(one["name"], one["state"]) for one in found] == [
        ("nvme0", "live"),
        ("sda", "running"),
    ]
    assert all("not supported" in one["unread"]["health"] for one in found)


@as_root
def test_a_drive_that_the_kernel_gave_up_is_not_asked(tools: Tools, tmp_path: Path) -> None:
    """A question to it would wait for a minute, and hide the others."""
    nvme_drive(tmp_path, "nvme0", state="dead")
    tools.add("nvme", "{}", script=f"touch {tmp_path}/asked")

    (found,) = tools.ask(drives.read, sysfs=str(tmp_path))

    assert found["state"] == "dead"
    assert not (tmp_path / "asked").exists()
