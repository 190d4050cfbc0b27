"""What DCGM reports, in each form that its versions have printed."""

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.node.probes import dcgm
from tests.stand_ins import Tools

CASES = json.loads((Path(__file__).parent / "tools" / "dcgm_diag.json").read_text())


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
