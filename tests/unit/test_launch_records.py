"""The run directory in trouble: the job goes on, and says so once."""

import logging
import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from slurm_resilience import run_directory
from slurm_resilience.clock import SteadyClock
from slurm_resilience.incident import Heartbeats, Incident, RankProgress
from slurm_resilience.launch.records import Records

INCIDENT = Incident(
    "7", 0, "crash", "unknown", "unknown", "no line says why", "same-nodes", detected_at=1.0
)


def test_what_was_left_is_found_again(tmp_path: Path) -> None:
    """Incidents of earlier attempts are read back, oldest first."""
    Records(tmp_path, 0).incident(INCIDENT, wait_s=20)

    found = Records(tmp_path, 1).incidents_before(1, wait_s=20)

    assert found == [INCIDENT]


def test_what_was_saved_before_is_known(tmp_path: Path) -> None:
    """The newest step of any earlier attempt of this job; what cannot be trusted says nothing."""
    ranks = (
        RankProgress(0, "n1", 50, "step", 40, 0.1),
        RankProgress(1, "n2", 50, "step", -1, 0.1),
    )
    for number in range(4):
        run_directory.write_incident(tmp_path, replace(INCIDENT, attempt=number, saved_step=10))
    run_directory.write_heartbeats(tmp_path, Heartbeats("7", 1, 1.0, ranks))
    foreign = replace(ranks[0], saved_step=99)
    run_directory.write_heartbeats(tmp_path, Heartbeats("6", 2, 1.0, (foreign,)))
    (tmp_path / "attempt-3" / "heartbeat.json").symlink_to("/etc/passwd")

    def saved(attempt: int) -> int | None:
        return Records(tmp_path, attempt).saved_before(attempt, job="7", wait_s=20)

    assert [saved(attempt) for attempt in (0, 1, 2, 4)] == [None, 10, 40, 40]


def test_a_directory_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is raised; one warning names the place."""
    (tmp_path / "runs").touch()
    records = Records(tmp_path / "runs", 0)

    with caplog.at_level(logging.WARNING):
        records.heartbeats(Heartbeats("7", 0, 1.0))
        records.stack(0, "stack")
        records.incident(INCIDENT, wait_s=20)

    assert [str(tmp_path / "runs") in record.message for record in caplog.records] == [True]


def test_a_file_system_that_hangs_holds_up_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A pipe that nobody reads stands for it: the writer hangs, the caller does not."""
    records = Records(tmp_path, 0)
    records.attempt_directory.mkdir()
    hung = records.attempt_directory / f".incident.json.{os.getpid()}.new"
    os.mkfifo(hung)

    with caplog.at_level(logging.WARNING):
        records.incident(INCIDENT, wait_s=0.1)
        records.heartbeats(Heartbeats("7", 0, 1.0))

    assert ["does not answer" in record.message for record in caplog.records] == [True]
    threading.Thread(target=lambda: os.close(os.open(hung, os.O_RDONLY))).start()


def test_a_suspended_job_has_not_stood_still() -> None:
    """Time in which the watcher itself could not run does not count against the ranks."""
    times = iter([0.0, 1.0, 2.0, 3602.0, 3603.0])
    clock = SteadyClock(lambda: next(times))

    assert [clock() for _ in range(4)] == [1.0, 2.0, 7.0, 8.0]
