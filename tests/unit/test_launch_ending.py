"""Who brings a job back after its attempt, and who does not."""

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from slurm_resilience.config import Config
from slurm_resilience.diagnosis.facts import NodeEnd
from slurm_resilience.incident import Incident, Retry, Suspect
from slurm_resilience.launch.ending import Ending
from slurm_resilience.launch.incidents import Attempt
from slurm_resilience.launch.job import ThisJob
from slurm_resilience.launch.outcome import Outcome
from slurm_resilience.launch.records import Records
from slurm_resilience.requeue.settings import RequeueSettings
from slurm_resilience.run_directory import write_incident
from slurm_resilience.signals import caught
from slurm_resilience.slurm.values import Job, Node
from slurm_resilience.watch import facts
from slurm_resilience.watch.settings import WatchSettings
from tests.fakes import FakeSlurm

CONFIG = Config(watch=WatchSettings(claim_s=0.01), requeue=RequeueSettings(node_down_s=20.0))
IMPATIENT = Config(watch=WatchSettings(claim_s=0.01), requeue=RequeueSettings(node_down_s=0.01))
NODES = [Node(f"n{number}", "IDLE", partitions=("all",)) for number in range(1, 5)]
JOB = Job(
    "7",
    "RUNNING",
    nodes=("n1", "n2"),
    nodes_needed=2,
    partition="all",
    restarts=1,
    comment="slurm-resilience",
)


def ended(retry: Retry, attempt: int = 1) -> Outcome:
    """An attempt that the supervisor ended, with n2 accused."""
    incident = Incident(
        "7", attempt, "stall", "unknown", "no-progress", "no rank moved", retry, 1000.0,
        suspects=(Suspect("n2", "is stopped"),), last_step=5, saved_step=4,
    )  # fmt: skip
    return Outcome(
        Attempt("7", attempt, 0.0, 1000.0), 1, facts.began(0.0), (), incident=incident
    )


def after(
    outcome: Outcome, directory: Path, *, terminated: bool = False, **changes: object
) -> tuple[Job, int]:
    """The job, and the exit status, after *outcome* of a job with *changes*."""
    slurm = FakeSlurm([msgspec.structs.replace(JOB, **changes)], NODES)
    this = ThisJob("7", "7", 1, 2, "n1", directory)
    with caught(signal.SIGTERM) as flags:
        if terminated:
            os.kill(os.getpid(), signal.SIGTERM)
        ending = Ending(this, CONFIG, slurm, Records(directory, 1), flags)
        status = ending.status(outcome)
    known = slurm.job("7")
    assert known is not None
    return known, status


class Moving(FakeSlurm):
    """A Slurm in which somebody else does something at the n-th question about the job."""

    def __init__(self, job: Job, at: int, what: Callable[["Moving"], None]) -> None:
        super().__init__([job], NODES)
        self.asked = 0
        self._at, self._what = at, what

    def job(self, job: str) -> Job | None:
        self.asked += 1
        if self.asked == self._at:
            self._what(self)
        return super().job(job)


def end(slurm: FakeSlurm, directory: Path, config: Config = CONFIG) -> None:
    this = ThisJob("7", "7", 1, 2, "n1", directory)
    with caught(signal.SIGTERM) as flags:
        Ending(this, config, slurm, Records(directory, 1), flags).status(ended("same-nodes"))


def test_a_controller_that_died_with_the_job_in_its_hands_is_not_waited_for_for_ever(
    tmp_path: Path,
) -> None:
    """GPUs must not stand reserved until the time limit because somebody else's daemon died."""
    marked = msgspec.structs.replace(JOB, comment="slurm-resilience slurm-resilience-requeue=1")
    slurm = FakeSlurm([marked], NODES)

    end(slurm, tmp_path, IMPATIENT)

    assert slurm.requeues == [("7", 1)]


def test_a_controller_that_has_taken_the_job_is_waited_for(tmp_path: Path) -> None:
    """While its mark stands, as long as it may take; when it gives up, the job goes by itself."""
    marked = msgspec.structs.replace(JOB, comment="slurm-resilience slurm-resilience-requeue=1")
    slurm = Moving(marked, 8, lambda slurm: slurm.set_comment("7", "slurm-resilience"))

    end(slurm, tmp_path)

    assert slurm.asked >= 8
    assert slurm.requeues == [("7", 1)]


@pytest.mark.parametrize("at", [2, 3], ids=["while it waits", "at the last moment"])
def test_nothing_false_is_said_where_somebody_else_was_faster(
    at: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The job is back in the queue already: it does not requeue itself, and that is no error."""
    slurm = Moving(JOB, at, lambda slurm: slurm.preempt("7"))

    with caplog.at_level(logging.INFO):
        end(slurm, tmp_path)

    assert slurm.requeues == []
    assert "requeues itself" not in caplog.text
    assert not [record for record in caplog.records[1:] if record.levelno >= logging.WARNING]


def test_without_a_controller_the_job_requeues_itself_without_the_suspect(
    tmp_path: Path,
) -> None:
    """Nobody claims it in time: back in the queue, the node excluded, not held."""
    job, status = after(ended("exclude-node"), tmp_path, excluded=("n4",))

    assert (job.state, job.restarts, job.held) == ("PENDING", 2, False)
    assert set(job.excluded) == {"n2", "n4"}
    assert status == 1


def test_what_a_controller_takes_is_left_to_it(tmp_path: Path) -> None:
    """SIGTERM is how one sees that somebody ends the job: nothing more is done to it."""
    job, _ = after(ended("exclude-node"), tmp_path, terminated=True)

    assert (job.state, job.restarts) == ("RUNNING", 1)


@pytest.mark.parametrize("retry", ["stop", "leave"])
def test_what_must_not_come_back_is_left(
    retry: Retry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log ends with a line that says why."""
    with caplog.at_level(logging.INFO):
        job, status = after(ended(retry), tmp_path)

    assert (job.state, job.restarts) == ("RUNNING", 1)
    assert status == 1
    assert caplog.records[-1].message.startswith("job 7")


def test_a_full_disk_holds_the_job(tmp_path: Path) -> None:
    """It comes back when somebody has made room and releases it."""
    job, _ = after(ended("hold"), tmp_path)

    assert (job.state, job.held) == ("PENDING", True)


def test_a_job_that_gets_nowhere_is_held(tmp_path: Path) -> None:
    """The retry budget is the controller's own."""
    for attempt in range(4):
        incident = ended("same-nodes", attempt).incident
        assert incident is not None
        write_incident(tmp_path, msgspec.structs.replace(incident, saved_step=4))
    slurm = FakeSlurm([msgspec.structs.replace(JOB, restarts=4)], NODES)
    this = ThisJob("7", "7", 4, 2, "n1", tmp_path)

    with caught(signal.SIGTERM) as flags:
        Ending(this, CONFIG, slurm, Records(tmp_path, 4), flags).status(ended("same-nodes", 4))

    job = slurm.job("7")
    assert job is not None
    assert job.held


def test_a_job_that_may_not_be_requeued_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """--no-requeue is respected."""
    job, status = after(ended("same-nodes"), tmp_path, can_requeue=False)

    assert (job.state, status) == ("RUNNING", 1)
    assert "--no-requeue" in caplog.text


def test_a_preempted_job_makes_room_and_comes_back(tmp_path: Path) -> None:
    """Slurm 22.05 forgets a job that stops before its grace is over."""
    job, _ = after(ended("leave"), tmp_path, preempted_at=990.0)

    assert (job.state, job.restarts) == ("PENDING", 2)


@pytest.mark.parametrize(("reason", "state"), [("TimeLimit", "PENDING"), ("None", "RUNNING")])
def test_only_the_time_limit_is_come_back_from(reason: str, state: str, tmp_path: Path) -> None:
    """At the limit nobody else brings it back; a cancelled job must never come back."""
    stopped = facts.noticed(facts.began(0.0), "time-limit")
    outcome = Outcome(
        Attempt("7", 1, 0.0, 1000.0),
        143,
        stopped,
        (NodeEnd("n1", 143),),
        is_terminated=True,
    )

    job, status = after(outcome, tmp_path, terminated=True, reason=reason)

    assert (job.state, status) == (state, 143)
