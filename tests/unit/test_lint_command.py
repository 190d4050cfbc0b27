"""`slurm-resilience lint` as a person, an editor and a check in CI use it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.cli import main
from slurm_resilience.errors import UsageError
from slurm_resilience.lint import act

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "sbatch_templates" / "torchrun_multi_node.sbatch"
FAULTY = """\
#!/bin/bash
#SBATCH --nodes=2 --time=24:00:00 --no-requeue --output=train.out
#SBATCH --signal=B:USR2@120
exec slurm-resilience run -- torchrun train.py
"""


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    path = tmp_path / "train.sbatch"
    path.write_text(FAULTY)
    return path


def saved(path: Path, step: int, took_s: float) -> None:
    """What `checkpoint list` reads of a checkpoint: its manifest."""
    names = (manifests.INDEX, manifests.tensors_name(0), manifests.values_name(0))
    files = {name: manifests.File(size_bytes=1, crc32=0) for name in names}
    manifest = manifests.Manifest(1, step, 1, saved_at=0.0, took_s=took_s, job="", files=files)
    path.mkdir()
    (path / manifests.NAME).write_bytes(manifests.encoded(manifest))


def test_a_clean_script_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 0, and not a word."""
    assert main(["lint", str(TEMPLATE)]) == 0

    assert capsys.readouterr() == ("", "")


def test_a_finding_has_its_place_its_reason_and_its_remedy(
    faulty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that editors can follow, then why it matters and what helps."""
    assert main(["lint", str(faulty)]) == 1

    said = capsys.readouterr().out
    assert f"{faulty}:2: shared-output: --output=train.out is the same file" in said
    assert "why: two jobs write into one file" in said
    assert "fix: put %j into the name" in said


def test_json_is_one_document(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With everything that the lines for people say, clean files included."""
    assert main(["lint", "--json", str(faulty), str(TEMPLATE)]) == 1

    first, second = json.loads(capsys.readouterr().out)["files"]
    assert first["file"] == str(faulty)
    found = {one["rule"]: one for one in first["findings"]}
    assert found["requeue-forbidden"]["line"] == 2
    assert not found["requeue-forbidden"]["fixable"]
    assert found["takes-no-part"]["fixable"]
    assert found["shared-output"] == {
        "rule": "shared-output",
        "line": 2,
        "message": "--output=train.out is the same file for every job",
        "why": "two jobs write into one file; nobody can tell whose lines they are",
        "fix": "put %j into the name (%A_%a in an array)",
        "fixable": False,
    }
    assert second == {"file": str(TEMPLATE), "fixed": [], "findings": []}


def test_fix_mends_what_is_safe_and_leaves_the_rest(
    faulty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mode kept, nothing left beside it; the second time there is nothing to do."""
    faulty.chmod(0o751)

    assert main(["lint", "--fix", str(faulty)]) == 1

    assert faulty.stat().st_mode & 0o7777 == 0o751
    assert list(faulty.parent.iterdir()) == [faulty]
    text = faulty.read_text()
    assert "\n#SBATCH --comment=slurm-resilience\n" in text
    said = capsys.readouterr().out
    assert f"{faulty}: fixed: takes-no-part" in said
    assert "shared-output" in said
    main(["lint", "--fix", str(faulty)])
    assert faulty.read_text() == text


@pytest.mark.parametrize(
    ("asks", "starts"),
    [("", "srun"), ("--no-requeue", "exec slurm-resilience run --")],
    ids=["saves nothing, for all we know", "was forbidden"],
)
def test_fix_does_not_decide_that_a_job_comes_back(
    asks: str, starts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said; whether the training can resume only its owner knows."""
    path = tmp_path / "train.sbatch"
    path.write_text(f"#!/bin/bash\n#SBATCH -t 9:0:0 {asks}\n{starts} torchrun train.py\n")

    assert main(["lint", "--fix", str(path)]) == 1

    assert "#SBATCH --requeue" not in path.read_text()
    assert f"#SBATCH -t 9:0:0 {asks}\n" in path.read_text()
    assert "requeue" in capsys.readouterr().out


def test_fix_goes_on_until_nothing_safe_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once the signal goes to bash, it shows that bash does not pass it on."""
    path = tmp_path / "train.sbatch"
    path.write_text(
        "#!/bin/bash\n#SBATCH -t 9:0:0 --signal=USR2@60\nslurm-resilience run -- torchrun x.py"
    )

    assert main(["lint", "--fix", str(path)]) == 0

    assert path.read_text().splitlines() == [
        "#!/bin/bash",
        "#SBATCH -t 9:0:0 --signal=B:USR2@60",
        "#SBATCH --requeue",
        "#SBATCH --comment=slurm-resilience",
        "#SBATCH --open-mode=append",
        "exec slurm-resilience run -- torchrun x.py",
    ]
    assert "fixed: signal-past-run" in capsys.readouterr().out


def test_fix_keeps_bytes_that_are_no_text(tmp_path: Path) -> None:
    """A comment in an old encoding comes through."""
    path = tmp_path / "old.sbatch"
    path.write_bytes(b"#!/bin/bash\r\n# \xe9t\xe9\r\necho\r\n")

    assert main(["lint", "--fix", str(path)]) == 0

    assert path.read_bytes() == b"#!/bin/bash\n# \xe9t\xe9\necho\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_fix_keeps_the_owner(faulty: Path) -> None:
    """Root mends a user's file, and it stays the user's."""
    os.chown(faulty, 61001, 61002)

    main(["lint", "--fix", str(faulty)])

    assert (faulty.stat().st_uid, faulty.stat().st_gid) == (61001, 61002)


def test_fix_refuses_a_file_of_two_names(
    faulty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other name would go on naming the old content; reading through a link is fine."""
    link = faulty.with_name("link")
    link.symlink_to(faulty)

    assert main(["lint", str(link)]) == 1
    assert main(["lint", "--fix", str(link)]) == 2
    link.unlink()
    link.hardlink_to(faulty)
    assert main(["lint", "--fix", str(faulty)]) == 2

    assert faulty.read_text() == FAULTY
    assert capsys.readouterr().err.count("has a second name; --fix the file itself") == 2


def test_fix_does_not_undo_what_was_written_meanwhile(faulty: Path) -> None:
    """An editor saved between the reading and the writing."""
    faulty.write_text("#!/bin/bash\n# newer\n")

    with pytest.raises(UsageError, match="was changed meanwhile"):
        act.write(faulty, FAULTY, "")

    assert faulty.read_text() == "#!/bin/bash\n# newer\n"


@pytest.mark.parametrize("name", ["missing", "folder", "huge", "pipe", "nul\0"])
def test_what_cannot_be_read_is_one_line_and_nothing_is_changed(
    name: str, tmp_path: Path, faulty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, the file named; those before it are as they were."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 30)

    assert main(["lint", "--fix", str(faulty), f"{tmp_path}/{name}"]) == 2

    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    assert name.rstrip("\0") in err
    assert faulty.read_text() == FAULTY


def test_a_name_that_a_terminal_would_obey_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a file's name nor its content reaches the terminal raw."""
    path = tmp_path / "a\x1b[2Jb.sbatch"
    path.write_text("#!/bin/bash\n#SBATCH --output=\x1b[31m$HOME\n")

    main(["lint", str(path)])

    assert "\x1b" not in capsys.readouterr().out


def test_the_longest_save_judges_the_lead(
    faulty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Told in seconds; a directory that tells nothing is refused."""
    assert main(["lint", "--save-s", "200", str(faulty)]) == 1
    assert "a save that took 200 s may need 400 s" in capsys.readouterr().out

    assert main(["lint", "--checkpoints", str(tmp_path), str(faulty)]) == 2
    assert "no checkpoint there tells what a save takes" in capsys.readouterr().err
    for step, took_s in ((100, 201.0), (200, 5.0)):
        saved(tmp_path / f"step-{step:09d}", step, took_s)
    assert main(["lint", "--checkpoints", str(tmp_path), str(faulty)]) == 1
    said = capsys.readouterr().out
    assert "a save that took 201 s may need 402 s" in said
    assert "write --signal=…@410" in said


def test_an_editor_hands_in_what_is_not_saved_yet() -> None:
    """Standard input is judged, never mended."""
    command = [sys.executable, "-m", "slurm_resilience", "lint", "-"]
    judged = subprocess.run(command, input=FAULTY, text=True, capture_output=True, check=False)
    mended = subprocess.run(
        [*command, "--fix"], input=FAULTY, text=True, capture_output=True, check=False
    )

    assert (judged.returncode, mended.returncode) == (1, 2)
    assert "-:2: shared-output" in judged.stdout
    assert "standard input cannot be mended" in mended.stderr


def test_fix_sends_no_signal_to_a_bash_that_dies_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where exec cannot be put before what is started, the notice stays as it was, and is told."""
    path = tmp_path / "train.sbatch"
    text = f"{FAULTY.replace('B:USR2', 'USR2').replace('exec ', '')}echo done\n"
    path.write_text(text)

    assert main(["lint", "--fix", str(path)]) == 1

    said = capsys.readouterr().out
    assert "--signal=USR2@120\n" in path.read_text()
    assert "write --signal=B:USR2@120, and exec before slurm-resilience run" in said


def test_fix_leaves_a_read_only_file_alone(
    faulty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever took the right to write away meant it, root or not."""
    faulty.chmod(0o444)

    assert main(["lint", "--fix", str(faulty)]) == 2

    assert faulty.read_text() == FAULTY
    assert "is read-only; chmod u+w it, or mend it by hand" in capsys.readouterr().err
