"""What the probes make of other people's commands: stand-ins that print what the real ones print."""

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.node import probing
from slurm_resilience.node.facts import assemble
from slurm_resilience.node.probes import dcgm, drives, ipmi, services, tool, ups

PATIENCE_S = 30.0
CASES = json.loads((Path(__file__).parent / "tools" / "dcgm_diag.json").read_text())


class Tools:
    """A folder with the commands that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, says: str = "", *, status: int = 0, script: str = "") -> None:
        """*says*: on standard output; *script*: shell, before it."""
        said = self.folder / f"{name}.said"
        said.write_text(says)
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\ncat {said}\nexit {status}\n")
        path.chmod(0o755)

    def ask(
        self,
        probe: Callable[..., object],
        *,
        timeout_s: float = PATIENCE_S,
        **arguments: object,
    ) -> Any:  # noqa: ANN401 - as the probe answers
        """The probe's answer; RuntimeError with what it says where it has none."""
        deadline = time.monotonic() + timeout_s
        child = probing.start(probe, deadline=deadline, tools=[str(self.folder)], **arguments)
        answers = probing.gather({"it": child})
        if answers.hung:
            raise TimeoutError
        values, unread = answers.read()
        if unread:
            raise RuntimeError(unread["it"])
        return values["it"]


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path / "bin")


# ── any tool ────────────────────────────────────────────────────────────────────────────────


def test_a_tool_that_hangs_costs_its_time_and_is_not_left(tools: Tools) -> None:
    """nv-hostengine that never answers, and a dcgmi that ignores SIGTERM (cluster-toolkit 6230)."""
    pid = tools.folder / "pid"
    tools.add("dcgmi", script=f"trap '' TERM; echo $$ >{pid}; sleep 600")

    with pytest.raises(TimeoutError):
        tools.ask(dcgm.read, ask="diag", timeout_s=1.0)

    until = time.monotonic() + PATIENCE_S
    while _is_alive(int(pid.read_text())):
        assert time.monotonic() < until


def _is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_tool_that_talks_without_end_is_stopped(tools: Tools) -> None:
    """What it said is bounded, and is no answer."""
    tools.add("upsc", script="yes")

    with pytest.raises(RuntimeError, match="said more than"):
        tools.ask(ups.read, name="rack7@nut")


def test_a_tool_speaks_one_language_and_knows_nothing_of_the_job(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures and headings of another language read as anything."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LD_PRELOAD_OF_A_USER", "x")
    tools.add("upsc", script='echo "ups.status: $LC_ALL $(env | grep -c USER)"')

    assert tools.ask(ups.read, name="rack7@nut")["status"] == ["C", "0"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.parametrize(
    "harm",
    [lambda path: path.chmod(0o777), lambda path: os.chown(path, 1, 1)],
    ids=["all may write", "another's"],
)
def test_root_runs_no_tool_that_somebody_else_can_write(
    tools: Tools, harm: Callable[[Path], None]
) -> None:
    """A command in a folder of a user's is as good as a password."""
    tools.add("upsc", "ups.status: OL\n")
    harm(tools.folder / "upsc")

    assert tool.found("upsc", [str(tools.folder)]) is None


def test_the_first_folder_counts(tools: Tools, tmp_path: Path) -> None:
    """As with PATH."""
    second = Tools(tmp_path / "more")
    for folder in (tools, second):
        folder.add("upsc")

    found = tool.found("upsc", [str(tools.folder), str(second.folder)])

    assert found == f"{tools.folder}/upsc"


# ── drives ──────────────────────────────────────────────────────────────────────────────────

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


def nvme_drive(root: Path, name: str, *, transport: str = "pcie", state: str = "live") -> None:
    folder = root / "class/nvme" / name
    folder.mkdir(parents=True)
    (folder / "transport").write_text(f"{transport}\n")
    (folder / "state").write_text(f"{state}\n")


def scsi_drive(root: Path, name: str, *, removable: int = 0) -> None:
    folder = root / "block" / name
    folder.mkdir(parents=True)
    (folder / "removable").write_text(f"{removable}\n")
    (folder / "device").mkdir()
    (folder / "device" / "state").write_text("running\n")


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may ask a drive")


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


# ── services ────────────────────────────────────────────────────────────────────────────────

TWO_UNITS = """\
LoadState=loaded
ActiveState=active
SubState=running

LoadState=not-found
ActiveState=inactive
SubState=dead
"""


def test_each_service_is_told(tools: Tools) -> None:
    """In the order in which they were asked for, whatever their other names."""
    tools.add("systemctl", TWO_UNITS)

    found = tools.ask(services.read, names=["nvidia-fabricmanager", "nvidia-dcgm"])

    assert [(one["name"], one["load"], one["active"]) for one in found] == [
        ("nvidia-fabricmanager", "loaded", "active"),
        ("nvidia-dcgm", "not-found", "inactive"),
    ]


@pytest.mark.parametrize(
    ("says", "status", "why"),
    [
        pytest.param(TWO_UNITS, 0, "of 2 units, not of 1", id="too many"),
        pytest.param("ActiveStatus=active\n", 0, "of 1 units", id="another word"),
        pytest.param(
            "System has not been booted with systemd as init system (PID 1). Can't operate.\n",
            1,
            "has not been booted with systemd",
            id="no systemd",
        ),
    ],
)
def test_what_systemd_does_not_say_is_unread(
    tools: Tools, says: str, status: int, why: str
) -> None:
    """Never taken for a service that is down."""
    tools.add("systemctl", says, status=status)

    with pytest.raises(RuntimeError, match=why):
        tools.ask(services.read, names=["nvidia-fabricmanager"])


@pytest.mark.parametrize(
    ("probe", "command"),
    [
        (partial(services.read, names=["nvidia-fabricmanager"]), "systemctl"),
        (partial(ups.read, name="rack7@nut"), "upsc"),
        (partial(dcgm.read, ask="health"), "dcgmi"),
    ],
    ids=["systemctl", "upsc", "dcgmi"],
)
def test_a_tool_that_was_asked_for_and_is_missing_is_said(
    tools: Tools, probe: Callable[..., object], command: str
) -> None:
    """The setting asks for it: silence would look like a pass."""
    with pytest.raises(RuntimeError, match=f"{command} is not installed"):
        tools.ask(probe)


# ── power ───────────────────────────────────────────────────────────────────────────────────

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


# ── whatever they say ───────────────────────────────────────────────────────────────────────


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(
        ["Pass", "Fail", "Healthy", "Warning", "5", ""]
    ),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "DCGM Diagnostic", "test_categories", "tests", "results", "status", "name", "warnings",
            "body", "Overall Health", "value", "children", "Errors", "GPU", "overflow",
            "critical_warning", "percent_used", "media_errors", "smartctl", "exit_status",
            "smart_status", "passed", "messages", "nvme_smart_health_information_log",
        ]),
        inner,
        max_size=4,
    ),
    max_leaves=30,
)  # fmt: skip
"""What a version that nobody has seen may print."""


@pytest.fixture(scope="module")
def shouting(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """Tools that print a file that each example writes."""
    tools = Tools(tmp_path_factory.mktemp("tools") / "bin")
    for name in ("dcgmi", "nvme", "smartctl"):
        tools.add(name)
    return tools


@as_root
@settings(max_examples=60, deadline=None)
@given(document=JSON)
def test_whatever_a_tool_prints_makes_facts_or_a_reason(
    shouting: Tools, document: object
) -> None:
    """A hook that broke over a tool's new version would leave the node unchecked."""
    root = shouting.folder.parent / "sys"
    if not root.exists():
        nvme_drive(root, "nvme0")
        scsi_drive(root, "sda")
    for name in ("dcgmi", "nvme", "smartctl"):
        (shouting.folder / f"{name}.said").write_text(json.dumps(document))
    tools = [str(shouting.folder)]
    deadline = time.monotonic() + PATIENCE_S
    children = {
        "dcgm:health": probing.start(dcgm.read, deadline=deadline, ask="health", tools=tools),
        "dcgm:diag": probing.start(dcgm.read, deadline=deadline, ask="diag", tools=tools),
        "drives": probing.start(drives.read, deadline=deadline, sysfs=str(root), tools=tools),
    }

    values, unread = probing.gather(children).read()

    assert len(assemble({"node": "n1"}, values, unread, ()).drives or ()) == 2
    assert {*values, *unread} == {*children}


# ── DCGM ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["note"])
def test_a_diagnostic_is_read(tools: Tools, case: dict[str, Any]) -> None:
    """Both forms of its JSON; its exit status says nothing more."""
    tools.add("dcgmi", json.dumps(case["doc"]), status=226)

    if "unread" in case:
        with pytest.raises(RuntimeError, match=case["unread"]):
            tools.ask(dcgm.read, ask="diag")
        return
    found = tools.ask(dcgm.read, ask="diag")

    told = [[one["test"], one["status"], one["entity"], one["configuration"]] for one in found]
    assert told == case["found"]


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("", "said no JSON: nothing"),
        (
            "Error: unable to establish a connection to the specified host: localhost\n",
            "unable",
        ),
        ('{"DCGM Diagnostic": ', "not JSON"),
        ('["DCGM Diagnostic"]', "said no JSON"),
    ],
    ids=["nothing", "no engine", "cut off", "a list"],
)
@pytest.mark.parametrize("ask", ["health", "diag"])
def test_what_is_no_report_is_never_a_pass(tools: Tools, ask: str, says: str, why: str) -> None:
    """Could not run is undecided."""
    tools.add("dcgmi", says)

    with pytest.raises(RuntimeError, match=why):
        tools.ask(dcgm.read, ask=ask)


def test_words_before_the_report_do_not_count(tools: Tools) -> None:
    """Some versions print warnings of their libraries first."""
    tools.add("dcgmi", "WARNING: old library\n" + json.dumps(CASES[0]["doc"]))

    assert tools.ask(dcgm.read, ask="diag")


def health(overall: str, **groups: object) -> str:
    body = {"Overall Health": {"value": overall}, **groups}
    return json.dumps({"body": body, "header": ["Health Monitor Report"]})


INCIDENTS = {
    "1": {
        "children": {
            "Errors": {
                "children": {
                    "PCIe system": {
                        "overflow": ["Detected more than 8 PCIe replays", "per minute."],
                        "value": "Warning",
                    },
                    "Memory system": {"overflow": ["A row remap failed."], "value": "Failure"},
                }
            }
        },
        "value": "Failure",
    }
}


@pytest.mark.parametrize(
    ("says", "found"),
    [
        pytest.param(health("Healthy"), [], id="healthy"),
        pytest.param(
            health("Failure", GPU={"children": INCIDENTS}),
            [
                (
                    "gpu1",
                    "PCIe system",
                    "warn",
                    "Detected more than 8 PCIe replays per minute.",
                ),
                ("gpu1", "Memory system", "fail", "A row remap failed."),
            ],
            id="two incidents",
        ),
        pytest.param(health("Warning"), [("", "Overall Health", "warn", "")], id="no detail"),
    ],
)
def test_a_health_watch_is_read(
    tools: Tools, says: str, found: list[tuple[str, str, str, str]]
) -> None:
    """Each incident with the system, the GPU and DCGM's words."""
    tools.add("dcgmi", says)

    told = tools.ask(dcgm.read, ask="health")

    assert [
        (one.get("entity", ""), one["test"], one["status"], one.get("says", "")) for one in told
    ] == found


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (health("Internal error"), "unknown form"),
        ('{"body": {}}', "Overall Health"),
        ("Error: Health watches not enabled. Please enable watches. \n", "not enabled"),
    ],
    ids=["another word", "no verdict", "no watches"],
)
def test_a_watch_that_does_not_work_is_unread(tools: Tools, says: str, why: str) -> None:
    """It is no verdict on the GPUs."""
    tools.add("dcgmi", says)

    with pytest.raises(RuntimeError, match=why):
        tools.ask(dcgm.read, ask="health")
