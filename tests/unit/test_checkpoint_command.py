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
