"""The command `diagnose`, as a person or an editor calls it."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.cli import main

LOGS = Path(__file__).parents[1] / "logs"
ECC = LOGS / "11_cuda_unspecified_launch_failure.log"
TOLD_TO_END = LOGS / "33_elastic_sigterm_received.log"


def test_a_person_reads_the_sentence_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Class and advice, cause and retry, whom it accuses, and the line that decided."""
    status = main(["diagnose", str(ECC)])
    said = capsys.readouterr().out.splitlines()

    assert status == 0
    assert said[0].startswith("hardware: a kernel died on one GPU")
    assert "cause cuda-launch-failure" in said[1]
    assert said[1].endswith("retry: exclude-node")
    assert said[2].startswith("  suspect rank 19, node 10.0.0.81: ")
    assert said[3].startswith(f"  {ECC}:2: ")


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """With the keys that others rely on."""
    main(["diagnose", "--json", str(ECC)])
    told = json.loads(capsys.readouterr().out)

    assert set(told) == {
        "class", "cause", "retry", "suspects", "evidence", "advice", "confidence",
    }  # fmt: skip
    assert (told["class"], told["retry"]) == ("hardware", "exclude-node")
    assert [(one["rank"], one["node"]) for one in told["suspects"]] == [(19, "10.0.0.81")]
    assert told["evidence"][0]["line"] == 2
    assert "unspecified launch failure" in told["evidence"][0]["text"]


def test_where_the_text_does_not_tell_nobody_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An empty list, not a null."""
    main(["diagnose", "--json", str(LOGS / "37_childfailed_only.log")])
    told = json.loads(capsys.readouterr().out)

    assert (told["class"], told["cause"]) == ("unknown", "unknown")
    assert told["suspects"] == []


def test_standard_input_is_a_log_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-`, as everywhere."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ECC.read_bytes())))

    assert main(["diagnose", "-"]) == 0
    assert "  -:2: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("state", "class_", "retry"),
    [("PREEMPTED", "preemption", "leave"), ("timeout", "time-limit", "same-nodes")],
)
def test_what_sacct_says_settles_what_text_cannot(
    state: str, class_: str, retry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A SIGTERM alone may be anything."""
    main(["diagnose", "--json", "--state", state, str(TOLD_TO_END)])
    told = json.loads(capsys.readouterr().out)

    assert (told["class"], told["retry"]) == (class_, retry)


def test_nodes_behind_one_switch_are_one_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where topology.conf says that they are."""
    log, topology = tmp_path / "x.log", tmp_path / "topology.conf"
    log.write_text("srun: error: Node failure on n1\nsrun: error: Node failure on n2\n")
    topology.write_text(
        "SwitchName=s0 Nodes=n[1-4] # leaf\nSwitchName=s1 Nodes=n[5-8]\nSwitchName=top Switches=s[0-1]\n"
    )

    main(["diagnose", "--json", "--topology", str(topology), str(log)])

    assert json.loads(capsys.readouterr().out)["class"] == "power"


def test_a_rule_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """What it means, where it is from, and a line that meets it."""
    assert main(["diagnose", "--explain", "host-memory"]) == 0
    said = capsys.readouterr().out

    assert "memory, retry stop" in said
    assert "learnt from nextflow-io/nextflow#5932" in said
    assert "oom_kill event" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to look at: give LOG, --job or --explain"),
        (["/nowhere/x.log"], "/nowhere/x.log: No such file or directory"),
        (["/dev/null"], "/dev/null: not a plain file"),
        (["--explain", "host-memoir"], "no rule 'host-memoir'; did you mean host-memory"),
        (["--topology", "/nowhere", str(ECC)], "/nowhere: not a topology.conf"),
        (["x\x1b[31m.log"], r"x\x1b[31m.log: No such file"),
    ],
)
def test_wrong_input_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the input, and nothing else is printed."""
    status = main(["diagnose", *words])
    output = capsys.readouterr()

    assert (status, output.out) == (2, "")
    assert said in output.err
    assert output.err.count("\n") == 1


def test_what_a_log_would_do_to_a_terminal_is_shown_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Marks that turn the writing direction, and whatever is no letter."""
    log = tmp_path / "x.log"
    log.write_bytes(
        "CUDA error: uncorrectable ECC error \u202e\x07\x9b31m encountered\n".encode()
    )

    main(["diagnose", str(log)])
    said = capsys.readouterr().out

    assert "\u202e" not in said
    assert "\x07" not in said
    assert "\x9b" not in said


# ── odd places ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_name_that_is_no_text_is_shown(place: str, tmp_path: Path) -> None:
    """Bytes of a path that are no UTF-8: what JSON cannot hold becomes a question mark."""
    log = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.log"))
    log.write_bytes(ECC.read_bytes())

    done = _apart("--json", os.fspath(log if place == "file" else tmp_path))

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["evidence"][0]["file"] == f"{tmp_path}/?.log"


def test_a_terminal_that_is_not_unicodes_is_written_to(tmp_path: Path) -> None:
    """JSON stays JSON, and says the same."""
    log = tmp_path / "é…😀.log"
    log.write_bytes(ECC.read_bytes())
    ascii_ = {"PYTHONIOENCODING": "ascii"}

    people, program = _apart(str(log), env=ascii_), _apart("--json", str(log), env=ascii_)

    assert people.returncode == program.returncode == 0, people.stderr + program.stderr
    assert "\\xe9\\u2026\\U0001f600.log:2" in people.stdout
    assert json.loads(program.stdout)["evidence"][0]["file"] == str(log)


@pytest.mark.parametrize("command", ["diagnose", "lint"])
def test_standard_input_that_is_closed_is_one_line(command: str) -> None:
    """`<&-`, as a daemon may start a command."""
    line = f'exec "{sys.executable}" -m slurm_resilience {command} - <&-'

    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr == "slurm-resilience: standard input is closed; name a file\n"


def test_standard_input_without_room_for_it_is_one_line() -> None:
    """A folder for temporary files that takes no more."""
    limit = f'ulimit -f 8; exec "{sys.executable}" -m slurm_resilience diagnose -'

    done = subprocess.run(
        ["bash", "-c", limit], input=b"x\n" * 100_000, capture_output=True, check=False
    )

    assert done.returncode == 2
    assert done.stderr.startswith(b"slurm-resilience: standard input, kept in ")
    assert b": File too large; name a file, or set TMPDIR\n" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([""], "an empty name; say which file or folder"),
        (["--state", "garbage", str(ECC)], "garbage: a state of sacct's: BOOT_FAIL, CANCELLED"),
        (["--state", "", str(ECC)], "a state of sacct's"),
    ],
)
def test_what_means_nothing_is_refused(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line."""
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", *arguments])

    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert says in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("state", ["CANCELLED by 1000", "cancelled+", "CANCELLED"])
def test_a_state_is_taken_as_sacct_prints_it(
    state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With who did it, cut short, or as typed."""
    assert main(["diagnose", "--json", "--state", state, str(TOLD_TO_END)]) == 0

    assert json.loads(capsys.readouterr().out)["cause"] == "slurm-cancelled"


def _apart(
    *arguments: str, env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "slurm_resilience", "diagnose", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
    )
