"""What the probes make of other people's commands: stand-ins that print what the real ones print."""

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.node import probing
from slurm_resilience.node.facts import assemble
from slurm_resilience.node.probes import dcgm, drives, services, tool, ups
from tests.stand_ins import PATIENCE_S, Tools, as_root, nvme_drive, scsi_drive

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
