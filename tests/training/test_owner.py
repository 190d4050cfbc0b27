"""One directory, one job; and the next attempt of that job is never locked out."""

from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.owner import NAME, Claim, owner
from slurm_resilience.errors import CheckpointError

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
