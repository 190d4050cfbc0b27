"""Tables: how an attempt ended -> its incident and the exit status."""

import pytest

from slurm_resilience.diagnosis.facts import NodeEnd
from slurm_resilience.incident import Incident
from slurm_resilience.launch import incidents
from slurm_resilience.launch.incidents import Attempt
from slurm_resilience.launch.outcome import Outcome, incident_of, status_of
from slurm_resilience.slurm.values import Job
from slurm_resilience.watch import facts
from slurm_resilience.watch.facts import GpuFacts, JobFacts, NodeFacts, RankFacts
from slurm_resilience.watch.rules import Finding, evidence
from slurm_resilience.watch.settings import WatchSettings

ATTEMPT = Attempt("7", 1, steady=100.0, unix=1_000_100.0)
RUNNING = Job("7", "RUNNING")
LIMIT = Job("7", "COMPLETING", reason="TimeLimit")
CANCELLED = Job("7", "COMPLETING")
PREEMPTED = Job("7", "RUNNING", preempted_at=1_000_050.0)
CLOSED = "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.1]:26532"


def ranks(phase: str = "step", *, errors: int = 0) -> JobFacts:
    """Two nodes with a rank each, at step 41; *errors* new ECC errors on n2."""
    job = facts.began(0.0, ("n1", "n2"))
    for number, at in ((0, 10.0), (errors, 90.0)):
        for place, node in enumerate(("n1", "n2")):
            rank = RankFacts(place, 0, 100, 41, phase, 20, age_s=0.0, state="S")
            gpu = GpuFacts(0, f"GPU-{node}", ecc_uncorrected=number if node == "n2" else 0)
            job = facts.heard(job, NodeFacts(node, (rank,), (gpu,)), at)
    return job


def ended(
    job: JobFacts,
    *statuses: int,
    stderr: str = "",
    notice: facts.Notice | None = None,
    terminated: bool = False,
) -> Outcome:
    if notice:
        job = facts.noticed(job, notice)
    ends = tuple(
        NodeEnd(f"n{number}", status, stderr=(stderr,) if status else ())
        for number, status in enumerate(statuses, 1)
    )
    return Outcome(
        ATTEMPT,
        max(statuses, default=1),
        job,
        ends,
        evidence=tuple(evidence(job, WatchSettings(), 100.0)),
        is_terminated=terminated,
    )


@pytest.mark.parametrize(
    ("outcome", "known", "expected"),
    [
        (ended(ranks("done"), 0, 0), RUNNING, None),
        (ended(facts.began(0.0), 0, 0), RUNNING, None),
        (ended(ranks("done"), 0, 0, notice="time-limit"), RUNNING, None),
        (ended(facts.began(0.0), 0, 0, notice="time-limit"), RUNNING, None),
        (ended(ranks(), 0, 0, notice="time-limit"), RUNNING, ("notice", "time-limit", "same-nodes")),
        (ended(ranks(), 0, 0, notice="time-limit"), None, ("notice", "time-limit", "same-nodes")),
        (ended(ranks(), 0, 0, notice="preemption"), PREEMPTED, ("notice", "preemption", "leave")),
        (ended(ranks(), 0, 0, notice="time-limit"), PREEMPTED, ("notice", "preemption", "leave")),
        (ended(ranks(), 0, 0, notice="preemption"), LIMIT, ("notice", "time-limit", "same-nodes")),
        (ended(ranks(), 143, 143, terminated=True), CANCELLED, None),
        (ended(ranks(), 143, 143, notice="time-limit", terminated=True), CANCELLED, None),
        (ended(ranks(), 143, 143, terminated=True), None, None),
        (ended(ranks(), 143, 143, terminated=True), LIMIT, ("notice", "time-limit", "same-nodes")),
        (ended(ranks(), 1, 1, stderr=CLOSED), RUNNING, ("crash", "software", "same-nodes")),
        (ended(ranks(errors=1), 1, 1, stderr=CLOSED), RUNNING, ("crash", "hardware", "exclude-node")),
        (ended(ranks(), 1, 0, stderr=CLOSED, notice="time-limit"), RUNNING, ("notice", "time-limit", "same-nodes")),
        (ended(ranks(), 1, 0, stderr="No space left on device", notice="time-limit"), RUNNING, ("crash", "storage", "hold")),
        (ended(ranks()), RUNNING, ("crash", "unknown", "same-nodes")),
    ],
    ids=[
        "finished", "finished without the library", "finished in time", "deaf to the notice",
        "stopped", "stopped, Slurm silent", "preempted", "preempted by the user's signal",
        "stopped at the limit", "cancelled", "cancelled after a notice", "terminated, Slurm silent",
        "time limit", "victims only", "victims and an ECC error", "victims while stopping",
        "disk full while stopping", "srun ended alone",
    ],
)  # fmt: skip
def test_an_end_gets_its_incident(
    outcome: Outcome, known: Job | None, expected: tuple[str, str, str] | None
) -> None:
    """A finished or cancelled job has none; Slurm knows better than a signal what it was about."""
    incident = incident_of(outcome, known)

    assert (incident and (incident.kind, incident.class_, incident.retry)) == expected


@pytest.mark.parametrize(
    ("outcome", "known", "status"),
    [
        (ended(ranks("done"), 0, 0), RUNNING, 0),
        (ended(ranks(), 0, 3, stderr="x"), RUNNING, 3),
        (ended(ranks(), 143, 0, terminated=True), CANCELLED, 143),
        (ended(ranks(), 0, 0, notice="time-limit"), RUNNING, 1),
    ],
)
def test_the_exit_status_is_the_commands(outcome: Outcome, known: Job, status: int) -> None:
    """What was asked to stop has not succeeded: a job that depends on it must not start."""
    assert status_of(outcome, incident_of(outcome, known)) == status


def test_an_incident_says_how_far_the_attempt_was() -> None:
    """Steps, and when it last moved, on the calendar."""
    incident = incident_of(ended(ranks(), 1, stderr=CLOSED), RUNNING)

    assert incident is not None
    assert (incident.last_step, incident.saved_step) == (41, 20)
    assert (incident.detected_at, incident.progressed_at) == (1_000_100.0, 1_000_010.0)


def test_a_stall_names_who_stands_elsewhere() -> None:
    """Of two stacks, the one outside the collective; who did not answer outranks it."""
    job = ranks()
    waiting = 'Current thread 0x1 (most recent call first):\n  File "/v/site-packages/torch/autograd/graph.py", line 9 in run\n  File "/t.py", line 5 in <module>\n'
    reading = 'Current thread 0x1 (most recent call first):\n  File "/data.py", line 7 in read\n  File "/t.py", line 4 in <module>\n'
    cause = Finding("no-progress", "no rank moved for 600 s, after step 41")

    odd = stalled(job, cause, {0: waiting, 1: reading})
    mute = stalled(job, cause, {0: waiting, 1: ""})
    alike = stalled(job, cause, {0: waiting, 1: waiting})

    assert [(one.node, one.why) for one in odd.suspects] == [
        ("n2", "rank 1 on n2 stands at /data.py:7 in read")
    ]
    assert mute.cause == "rank-mute"
    assert (alike.suspects, alike.retry) == ((), "same-nodes")


def stalled(job: JobFacts, cause: Finding, stacks: dict[int, str]) -> Incident:
    return incidents.stall(ATTEMPT, job, cause, incidents.stack_findings(job, stacks))
