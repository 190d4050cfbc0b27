"""One directory, one job; and the next attempt of that job is never locked out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.owner import NAME, Claim, owner
from slurm_resilience.checkpoint_files.pruning import unowned
from slurm_resilience.errors import CheckpointError, CheckpointInUseError

JOB = {"SLURM_JOB_ID": "7"}


def claim(directory: Path, environment: dict[str, str], node: str = "n1") -> Claim:
    """A claim by a process with that environment."""
    return Claim(directory, owner(environment, node=node, pid=1), wait_s=0.1)


def test_a_second_job_is_refused_in_one_line(tmp_path: Path) -> None:
    """The line names the job that is writing there and says what to do."""
    first = claim(tmp_path, JOB)

    with pytest.raises(CheckpointError) as refused:
        claim(tmp_path, {"SLURM_JOB_ID": "8"})

    assert "in use by job 7, attempt 0 (pid 1 on n1)" in str(refused.value)
    assert "directory of its own" in str(refused.value)
    first.release()
    claim(tmp_path, {"SLURM_JOB_ID": "8"}).release()


@pytest.mark.parametrize(
    "later",
    [{"SLURM_RESTART_COUNT": "1"}, {"TORCHELASTIC_RESTART_COUNT": "1"}],
    ids=["requeued", "restarted by torchrun"],
)
def test_the_next_attempt_takes_over_from_one_that_still_holds_the_lock(
    tmp_path: Path, later: dict[str, str]
) -> None:
    """A node that is gone may keep its lock on a network file system; its attempt may not write."""
    gone = claim(tmp_path, JOB)

    alive = claim(tmp_path, {**JOB, **later}, node="n2")

    alive.confirm()
    with pytest.raises(CheckpointError, match="taken over by job 7"):
        gone.confirm()


@pytest.mark.parametrize("environment", [JOB, {}], ids=["same attempt", "outside Slurm"])
def test_a_twin_is_refused(tmp_path: Path, environment: dict[str, str]) -> None:
    """Two processes of one attempt, or of no job at all, cannot both write."""
    first = claim(tmp_path, environment)

    with pytest.raises(CheckpointError, match="in use"):
        claim(tmp_path, environment)
    first.release()


def test_tasks_of_an_array_are_jobs_of_their_own(tmp_path: Path) -> None:
    """The raw job id of one task is that of the whole array."""
    array = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "9"}
    first = claim(tmp_path, {**array, "SLURM_ARRAY_TASK_ID": "1"})

    with pytest.raises(CheckpointError, match="job 9_1"):
        claim(tmp_path, {**array, "SLURM_ARRAY_TASK_ID": "2", "SLURM_RESTART_COUNT": "1"})
    first.release()


@pytest.mark.parametrize("content", [b"", b"nonsense", b'{"job": 1}', bytes(1 << 20)])
def test_a_damaged_owner_file_keeps_nobody_out(tmp_path: Path, content: bytes) -> None:
    """Where the lock is free, the file is only replaced."""
    (tmp_path / NAME).write_bytes(content)

    mine = claim(tmp_path, JOB)

    mine.confirm()
    mine.release()


@pytest.mark.parametrize(
    "later",
    [{"SLURM_RESTART_COUNT": "1"}, {"SLURM_JOB_ID": "8"}],
    ids=["next attempt", "another job"],
)
def test_no_job_begins_while_old_ones_are_deleted(
    tmp_path: Path, later: dict[str, str]
) -> None:
    """Not even the next attempt of the job that was; once that is done, it can."""
    claim(tmp_path, JOB).release()

    with unowned(tmp_path), pytest.raises(CheckpointInUseError, match="in use by a process"):
        claim(tmp_path, {**JOB, **later})

    claim(tmp_path, {**JOB, **later}).release()


def test_an_attempt_at_work_without_the_lock_goes_on_after_a_tidying_up(tmp_path: Path) -> None:
    """It took over from a lost node, whose lock came free only later."""
    gone = claim(tmp_path, JOB)
    alive = claim(tmp_path, {**JOB, "SLURM_RESTART_COUNT": "1"})
    gone.release()

    with unowned(tmp_path), pytest.raises(CheckpointInUseError):
        alive.confirm()

    alive.confirm()


def a_directory(path: Path) -> None:
    """What stands in for a file that the system cannot read."""
    path.mkdir()


def nonsense(path: Path) -> None:
    """A file that was damaged."""
    path.write_text("nonsense")


@pytest.mark.parametrize("damage", [a_directory, nonsense])
def test_nothing_is_written_where_it_is_not_known_whose_the_directory_is(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """The file may say that the next attempt has taken over."""
    mine = claim(tmp_path, JOB)
    (tmp_path / NAME).unlink()
    damage(tmp_path / NAME)

    with pytest.raises(CheckpointError, match="cannot tell whether another writes there"):
        mine.confirm()
    mine.release()


def test_a_claim_that_was_deleted_is_renewed(tmp_path: Path) -> None:
    """The directory was not, and nobody says so."""
    mine = claim(tmp_path, JOB)
    (tmp_path / NAME).unlink()

    assert not mine.renew()

    mine.confirm()
    mine.release()
