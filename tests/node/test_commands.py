"""`check` and `facts` as people and scripts use them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("slurm-resilience")
RECORDED = Path(__file__).parents[1] / "facts"


def run(*arguments: str | Path, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [COMMAND, *arguments], input=stdin, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("name", "status", "verdict"),
    [
        ("h100_healthy", 0, "fit"),
        ("geforce_healthy", 0, "fit"),
        ("xid_13_storm", 0, "fit"),
        ("h100_row_remap_failed", 1, "unfit"),
        ("h100_row_remap_pending", 1, "unfit"),
        ("nvml_hung", 3, "undecided"),
        ("kernel_log_unread", 3, "undecided"),
    ],
)
def test_recorded_facts_are_judged(name: str, status: int, verdict: str) -> None:
    """The exit status and the document say the same."""
    done = run("check", "--json", "--facts", RECORDED / f"{name}.json")

    document = json.loads(done.stdout)
    assert done.returncode == status
    assert (document["node"], document["verdict"]) == ("n1", verdict)
    assert done.stderr == b""


def test_a_finding_names_check_severity_and_subject() -> None:
    """A script finds in the document what an administrator finds in the reason."""
    done = run("check", "--json", "--facts", "-", stdin=recorded("h100_row_remap_failed"))

    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["check"] == "row-remap-failed"
    assert finding["severity"] == "drain"
    assert (finding["subject"], finding["gpu"]) == ("gpu1", 1)


def test_people_get_lines() -> None:
    """The verdict first, then why, worst first."""
    done = run("check", "--facts", RECORDED / "xid_79_and_gpu_gone.json")

    assert done.stdout.decode().splitlines()[0] == "n1: unfit"
    assert b"drain  xid 0000:2b:00.0: Xid 79 GPU has fallen off the bus" in done.stdout


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b'{"node": 3}', b'{"node": "n1", "gpus": [{}]}', b"\xff\xfe"]
)
def test_what_are_no_facts_is_refused(text: bytes) -> None:
    """One line says what was wrong with what, and nothing is judged."""
    done = run("check", "--facts", "-", stdin=text)

    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    assert b"facts --json" in done.stderr


def test_a_missing_file_is_named() -> None:
    """The path that was given stands in the message."""
    done = run("check", "--facts", "/nowhere/facts.json")

    assert done.returncode == 2
    assert b"/nowhere/facts.json: No such file or directory" in done.stderr


def test_facts_are_what_check_takes() -> None:
    """A fault seen once becomes a recording that can be judged anywhere."""
    facts = run("facts", "--json")
    checked = run("check", "--json", "--facts", "-", stdin=facts.stdout)

    assert facts.returncode == 0
    assert json.loads(checked.stdout)["node"] == json.loads(facts.stdout)["node"]


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.json").read_bytes()


@pytest.mark.parametrize("nodes", ["n1: {}\nevil: 1", "n[1-9999][1-9999]", "n[5-3]", "n 1"])
def test_only_names_of_nodes_get_a_profile(nodes: str) -> None:
    """What is pasted into a configuration holds what was asked for, and nothing beside."""
    done = run("facts", "--learn", "--nodes", nodes)

    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"--nodes" in done.stderr
