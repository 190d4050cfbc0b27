"""The directory goes while a job trains: nothing is begun anew in silence, nothing written astray."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.checkpoint_files.owner import Claim, owner
from slurm_resilience.errors import CheckpointInUseError, CheckpointPlaceError, UsageError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.watch.heartbeat import DIRECTORY_VARIABLE, SAVED_VARIABLE
from tests.training import trouble_jobs
from tests.training.ranks import Ranks, on_ranks, wait_for

UNMOUNTED = """
import subprocess, sys
from pathlib import Path
from slurm_resilience.errors import CheckpointSaveError
from slurm_resilience.training import Checkpoints, Run
mount = Path(sys.argv[1])
directory = mount / sys.argv[2]
run = Run(checkpoints=Checkpoints(directory, every_steps=1), state={"n": 1})
run.step(run.restore())
while not list(directory.glob("step-*")):
    pass
subprocess.run(["umount", "--lazy", mount], check=True)
for step in (1, 2, 3):
    run.step(step)
try:
    run.finish()
except CheckpointSaveError as error:
    print("final:", error)
print("beneath:", [str(path) for path in mount.rglob("*")])
"""


def saving(directory: Path) -> Run:
    """A run that saves at each step, and has saved step 0."""
    run = Run(checkpoints=Checkpoints(directory, every_steps=1), state={"n": 1})
    run.restore()
    run.step(0)
    wait_for(lambda: list(directory.glob("step-*")))
    return run


def steps(directory: Path) -> list[int]:
    """Steps of all checkpoints there, the oldest first."""
    return sorted(entry.manifest.step for entry in found(directory) if entry.manifest)


def restored(directory: Path, *, anew: bool = False) -> int:
    """The first step to do, in a new attempt."""
    run = Run(checkpoints=Checkpoints(directory), state={"n": 1})
    try:
        return run.restore(anew=anew)
    finally:
        run.close()


def test_a_directory_deleted_in_mid_run_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Saves after that count, and it is this job's as before: a second one is refused."""
    directory = tmp_path / "c"
    run = saving(directory)
    shutil.rmtree(directory)

    run.step(1)
    run.step(2)
    wait_for(lambda: steps(directory) == [1, 2])

    assert f"{directory} was deleted; made again" in caplog.text
    with pytest.raises(CheckpointInUseError):
        Claim(directory, owner({"SLURM_JOB_ID": "8"}, node="n1", pid=1), wait_s=0.0)
    run.finish()
    Claim(directory, owner({"SLURM_JOB_ID": "8"}, node="n1", pid=1), wait_s=0.0).release()


def test_two_ranks_go_on_saving_in_a_directory_that_was_deleted(tmp_path: Path) -> None:
    """One rank makes it again, and all find it."""
    directory = tmp_path / "c"

    said = on_ranks(
        trouble_jobs.through_a_deletion, directory, world_size=2, folder=tmp_path / "b"
    )

    assert said == ["saved", "saved"]
    assert steps(directory)[-1] == 9


def test_a_directory_that_another_job_has_made_meanwhile_is_left_to_it(tmp_path: Path) -> None:
    """Two jobs never write to one directory; the first ends with an error that says so."""
    directory = tmp_path / "c"
    run = saving(directory)
    shutil.rmtree(directory)
    directory.mkdir()
    other = Claim(directory, owner({"SLURM_JOB_ID": "8"}, node="n2", pid=1), wait_s=0.0)

    run.step(1)
    with pytest.raises(CheckpointInUseError, match="taken over by job 8") as refused:
        run.finish()

    assert "training goes on" not in str(refused.value)
    assert steps(directory) == []
    other.confirm()
    other.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize("inner", ["c", "."], ids=["a directory in it", "the mount itself"])
def test_nothing_is_written_beneath_a_mount_that_vanished(tmp_path: Path, inner: str) -> None:
    """Each due save says that it failed, the first one why; the job ends with an error."""
    mount = tmp_path / "mount"
    mount.mkdir()
    shell = 'mount -t tmpfs none "$0" && exec "$@"'

    ended = subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", shell, str(mount),
         sys.executable, "-c", UNMOUNTED, str(mount), inner],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    assert ended.stdout.splitlines()[-1] == "beneath: []"
    assert "final: step 3 is not saved" in ended.stdout
    assert "mount it again" in ended.stdout
    assert "training goes on" not in ended.stdout
    assert ended.stderr.count("mount it again") == 1
    assert "step 2 is not saved either" in ended.stderr


@pytest.mark.parametrize("made", [True, False], ids=["empty", "not there"])
def test_an_attempt_whose_forerunner_had_saved_does_not_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, made: bool
) -> None:
    """The error names the directory and the way out; nothing is made in its place."""
    directory = tmp_path / "c"
    if made:
        directory.mkdir()
    monkeypatch.setenv(SAVED_VARIABLE, "1500")

    with pytest.raises(CheckpointPlaceError) as refused:
        restored(directory)

    for part in (
        str(directory),
        "step 1500",
        "restore(anew=True)",
        f"export {SAVED_VARIABLE}=",
    ):
        assert part in str(refused.value)
    assert directory.exists() == made
    assert restored(directory, anew=True) == 0
    monkeypatch.setenv(SAVED_VARIABLE, "")
    assert restored(directory) == 0


@pytest.mark.parametrize(
    "text",
    ["1500x", "-1", "1.5", "step 1500", "9" * 40, "\N{ARABIC-INDIC DIGIT THREE}"],
    ids=["letters", "negative", "fraction", "words", "huge", "other digits"],
)
def test_a_saved_step_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """A mistyped line of the batch script does not allow a beginning; white space is none of it."""
    monkeypatch.setenv(SAVED_VARIABLE, text)
    with pytest.raises(UsageError, match=f"{SAVED_VARIABLE} is ") as refused:
        restored(tmp_path / "c")
    assert "\n" not in str(refused.value)
    monkeypatch.setenv(SAVED_VARIABLE, " 1500 ")
    with pytest.raises(CheckpointPlaceError, match="step 1500"):
        restored(tmp_path / "c")


def test_anew_does_not_throw_away_what_is_there(tmp_path: Path) -> None:
    """It can stay in a script: it only allows a beginning where there is nothing."""
    saving(tmp_path / "c").finish()

    assert restored(tmp_path / "c", anew=True) == 1


def test_going_back_further_than_what_was_saved_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An older checkpoint is better than none, but somebody has to know."""
    saving(tmp_path / "c").finish()
    monkeypatch.setenv(SAVED_VARIABLE, "1500")

    assert restored(tmp_path / "c") == 1

    assert (
        "step 1500 had been saved, and is gone, damaged or poisoned: going on from step 1"
        in caplog.text
    )


def test_ranks_that_torchrun_restarts_do_not_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they had saved stands in their last heartbeat."""
    beats, directory = tmp_path / "beats", tmp_path / "c"
    beats.mkdir()
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(beats))
    saving(directory).finish()
    shutil.rmtree(directory)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")

    with pytest.raises(CheckpointPlaceError, match="step 0"):
        restored(directory)


def test_an_owner_that_wakes_up_late_leaves_the_next_ones_checkpoint_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own of that step, whole but for its name, is not put in place of the other's."""
    directory = tmp_path / "c"
    job = trouble_jobs.stopped_before_it_names
    with Ranks(job, directory, world_size=1, folder=tmp_path / "b") as late:
        stat = Path(f"/proc/{late.processes[0].pid}/stat")
        wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
        saving(directory).finish()
        os.kill(late.processes[0].pid or 0, signal.SIGCONT)
        said = late.results()

    assert "taken over by job 7, attempt 1" in said[0]
    assert steps(directory) == [0]
    assert not (directory / "quarantine").exists()
