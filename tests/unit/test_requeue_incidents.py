"""What the controller reads of a job's run directory."""

import os
from pathlib import Path

from slurm_resilience.incident import UNTOLD, Heartbeats, RankProgress
from slurm_resilience.requeue.incidents import History, Incidents
from slurm_resilience.run_directory import write_heartbeats
from slurm_resilience.slurm.values import Job


def job(folder: Path, **fields: object) -> Job:
    told = {"state": "RUNNING", "comment": "slurm-resilience=runs", "restarts": 1, **fields}
    return Job("7", user_id=os.getuid(), work_dir=str(folder), **told)  # type: ignore[arg-type]


def read(asked: Job) -> History:
    reader = Incidents(as_owner=False, timeout_s=10, attempts=12)
    return reader.read([asked])["7"]


def test_a_comment_that_names_no_path_is_refused_each_time_in_the_same_words(
    tmp_path: Path,
) -> None:
    """It is no run directory that hung, to be tried again."""
    reader = Incidents(as_owner=False, timeout_s=10, attempts=12)
    asked = job(tmp_path, comment="slurm-resilience=/a%00b")

    first, second = (reader.read([asked])["7"] for _ in range(2))

    assert (
        first
        == second
        == History(untrusted="its Comment names no path: 'slurm-resilience=/a%00b'")
    )


def test_what_a_killed_supervisor_left_is_told_from_its_heartbeats(tmp_path: Path) -> None:
    """Every attempt counts against the next: one without a trace made no step."""
    ranks = tuple(RankProgress(n, "n1", 40 + n, "step", 40, 0.1) for n in range(2))
    write_heartbeats(tmp_path / "runs", Heartbeats("7", 1, 1000.0, ranks))

    history = read(job(tmp_path, state="FAILED", signal=9))

    assert [
        (one.attempt, one.cause, one.last_step, one.saved_step) for one in history.incidents
    ] == [(0, UNTOLD, None, None), (1, UNTOLD, 41, 40)]
    assert read(job(tmp_path)) == History()
