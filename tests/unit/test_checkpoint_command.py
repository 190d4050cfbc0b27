"""`checkpoint list|verify|path|prune`, as a shell sees it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.cli import main
from tests.whole import checkpoint


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Three checkpoints; one bit of the newest is not as it was written."""
    for step in (10, 20, 30):
        checkpoint(tmp_path, step)
    (tmp_path / directory_name(30) / "rank-00000.tensors").write_bytes(b"30 kontent")
    return tmp_path


def test_list_reads_no_content(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes are right, so all three are whole; the newest comes first."""
    status = main(["checkpoint", "list", str(directory)])

    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines] == ["STEP", "30", "20", "10"]
    assert all(line.endswith("whole") for line in lines[1:])


def test_verify_finds_the_damage(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1, and the document names the file."""
    status = main(["checkpoint", "verify", "--json", str(directory)])

    checkpoints = json.loads(capsys.readouterr().out)["checkpoints"]
    assert status == 1
    assert [entry["step"] for entry in checkpoints if not entry["problem"]] == [20, 10]
    assert "rank-00000.tensors is damaged" in checkpoints[0]["problem"]


def test_path_is_the_newest_sound_one(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It can be used in a script; what was skipped goes to standard error."""
    status = main(["checkpoint", "path", str(directory)])

    out, err = capsys.readouterr()
    assert (status, out) == (0, f"{directory / directory_name(20)}\n")
    assert "skipped" in err
    assert directory_name(30) in err


def test_path_says_when_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 1 and nothing on standard output."""
    assert main(["checkpoint", "path", str(tmp_path)]) == 1
    assert capsys.readouterr().out == ""


def poisoned(directory: Path) -> Path:
    """The newest two hold a NaN."""
    checkpoint(directory, 40, poison="the loss is NaN")
    return checkpoint(directory, 50, poison="the loss is NaN")


def test_path_says_that_the_newest_is_poisoned(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is still what a training goes on from."""
    newest = poisoned(directory)

    assert main(["checkpoint", "path", str(directory)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{newest}\n"
    assert "poisoned: the loss is NaN; --sound" in err
    assert main(["checkpoint", "path", "--json", str(directory)]) == 0
    assert json.loads(capsys.readouterr().out)["poison"] == "the loss is NaN"


def test_path_of_the_newest_sound_one_goes_behind_poison(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And behind damage; what was skipped is said."""
    poisoned(directory)

    assert main(["checkpoint", "path", "--sound", str(directory)]) == 0

    out, err = capsys.readouterr()
    assert out == f"{directory / directory_name(20)}\n"
    assert [line.split(":")[0][-2:] for line in err.splitlines()] == ["30", "50", "40"]


def test_path_says_where_all_are_poisoned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 1 and nothing on standard output."""
    poisoned(tmp_path)

    assert main(["checkpoint", "path", "--sound", str(tmp_path)]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("poisoned") == 2
    assert f"no sound checkpoint in {tmp_path}\n" in err


@pytest.mark.parametrize("what", ["list", "verify"])
@pytest.mark.parametrize(
    ("where", "says"),
    [
        (".", "there are some in {0}/c"),
        ("c/step-000000030", "manifest.json is missing"),
        ("empty", "no checkpoints in {0}/empty\n"),
    ],
)
def test_where_none_is_the_line_says_what_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str, where: str, says: str
) -> None:
    """The folder above, a checkpoint that was cut off: never as if all were well."""
    for name in ("c", "empty"):
        (tmp_path / name).mkdir()
    checkpoint(tmp_path / "c", 20)
    (checkpoint(tmp_path / "c", 30) / "manifest.json").unlink()

    assert main(["checkpoint", what, str(tmp_path / where)]) == 1

    out = capsys.readouterr().out
    assert out.startswith("no checkpoints in")
    assert says.format(tmp_path) in out


@pytest.mark.parametrize(
    "what", ["list", "verify", "verify --quarantine", "path", "prune --keep 1"]
)
def test_a_directory_that_is_not_there_is_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """Could not look is not the same as unsound."""
    assert main(["checkpoint", *what.split(), str(tmp_path / "none")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "what", ["list", "verify", "verify --quarantine", "path", "prune --keep 1"]
)
@pytest.mark.parametrize(
    "name",
    ["x" * 5000, "a/" * 2040 + "a", "loop", "file", "file/below", "nul\0", "two\nlines"],
    ids=["long name", "long path", "loop of links", "file", "below a file", "NUL", "newline"],
)
def test_a_name_that_leads_nowhere_is_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str, name: str
) -> None:
    """One line that a screen can hold, whatever was typed."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")

    status = main(["checkpoint", *what.split(), str(tmp_path / name)])

    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert len(err) < 400


def test_a_name_that_is_no_text_can_be_used(
    directory: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A file name is bytes; a script gets the same ones back."""
    odd = os.fsencode(directory) + b"-\xff"
    directory.rename(os.fsdecode(odd))

    status = main(["checkpoint", "path", os.fsdecode(odd)])

    wanted = odd + b"/" + directory_name(20).encode() + b"\n"
    assert (status, capfdbinary.readouterr().out) == (0, wanted)
    assert main(["checkpoint", "list", os.fsdecode(odd)]) == 0


def test_the_command_needs_no_torch(directory: Path) -> None:
    """It runs where torch is not installed: on a login node, in a hook."""
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from slurm_resilience.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "checkpoint", "path", str(directory)]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
