"""How an attempt ended -> its incident, where it has one, and the exit status. Pure."""

import msgspec

from slurm_resilience.diagnosis.facts import NodeEnd
from slurm_resilience.incident import Incident
from slurm_resilience.launch.incidents import Attempt, crash, notice
from slurm_resilience.slurm.values import Job
from slurm_resilience.watch.facts import JobFacts, Notice
from slurm_resilience.watch.rules import Finding

TERMINATED = 128 + 15


class Outcome(msgspec.Struct, frozen=True):
    """How the step ended."""

    attempt: Attempt
    status: int
    """srun's, as a shell tells it."""
    job: JobFacts
    ends: tuple[NodeEnd, ...]
    """In the order in which the nodes ended."""
    launcher: tuple[str, ...] = ()
    """srun's own last lines."""
    evidence: tuple[Finding, ...] = ()
    incident: Incident | None = None
    """Where the supervisor ended the attempt for one; it is written already."""
    is_terminated: bool = False
    """The batch script got SIGTERM."""
    is_finished: bool = False
    """All ranks were done, and would not leave."""


def incident_of(outcome: Outcome, known: Job | None) -> Incident | None:
    """
    Why the attempt ended, None where it finished or was cancelled.

    A batch script that got SIGTERM is told why by Slurm alone; where Slurm (*known*) does not
    say, it counts as cancelled: a job that its owner ended must never come back.
    """
    if outcome.incident is not None:
        return outcome.incident
    attempt, job = outcome.attempt, outcome.job
    if outcome.is_terminated:
        told = _notice(None, known)
        return notice(attempt, job, told, how="it was ended") if told else None
    why = _notice(job.notice, known)
    if is_success(outcome):
        if why is None or is_done(job):
            return None
        preempted = known is not None and known.preempted_at is not None
        how = "preempted, saved and stopped" if preempted else "saved and stopped"
        return notice(attempt, job, why, how=how)
    job = msgspec.structs.replace(job, notice=why)
    launcher = (*outcome.launcher, f"srun ended with status {outcome.status}")
    return crash(attempt, job, outcome.ends, launcher, outcome.evidence)


def _notice(told: Notice | None, known: Job | None) -> Notice | None:
    """What the notice was about: Slurm knows better than the signal that came."""
    if known is not None and known.preempted_at is not None:
        return "preemption"
    if known is not None and known.reason == "TimeLimit":
        return "time-limit"
    return told


def status_of(outcome: Outcome, incident: Incident | None) -> int:
    """The batch script's exit status: the command's where it tells one."""
    failed = [end.status for end in outcome.ends if end.status]
    if outcome.is_terminated:
        return TERMINATED
    if incident is None:
        return 0
    return failed[0] if failed else outcome.status or 1


def is_success(outcome: Outcome) -> bool:
    """Whether every node's command ended well, or everything was done before it."""
    return outcome.is_finished or (
        outcome.status == 0
        and bool(outcome.ends)
        and all(end.status == 0 for end in outcome.ends)
    )


def is_done(job: JobFacts) -> bool:
    """
    Whether the work is whole: all ranks said so, or they say nothing at all.

    Ranks that stopped because of a notice do not say that they are done.
    """
    return all(rank.phase == "done" for _, rank in job.ranks())
