"""
Which step, if any, brings a job on its way to the next attempt.

    Mark -> RequeueHold -> Exclude -> Wait until it is pending -> Release -> StartNow -> Unmark

A job that is over because its supervisor was killed goes back to the queue in one step, Requeue, and
from there on its way.

One step a call, from what Slurm says now. A step that is already true is skipped, so whoever comes
next, after a crash between any two, goes on where the last one stopped.
"""

import msgspec
from msgspec.structs import replace

from slurm_resilience.incident import UNTOLD, Incident
from slurm_resilience.requeue.facts import JobFacts
from slurm_resilience.requeue.mark import marked
from slurm_resilience.requeue.rules import (
    budget_spent,
    exclusion,
    left_to_slurm,
    misdated,
    supervisor_end,
    suspects,
)
from slurm_resilience.requeue.settings import RequeueSettings
from slurm_resilience.slurm.values import Node

LONGEST_WAIT_S = 30 * 24 * 3600.0
"""An incident older than this is not why a waiting job is brought back."""
SETTLED_S = 1.1
"""An attempt that starts on a node in the very second in which the last one was ended there is refused
("Job credential revoked"), and Slurm then fails the whole job; its own delay guards against that."""
SOON_S = 5.0
"""A begin time this near is not worth a step."""


class Mark(msgspec.Struct, frozen=True):
    """Say in the job's Comment that what follows is ours."""

    attempt: int


class RequeueHold(msgspec.Struct, frozen=True):
    """End the attempt; the job goes back to the queue and waits for us."""

    because: str


class Requeue(msgspec.Struct, frozen=True):
    """Put a job that is over back in the queue: Slurm lets nobody mark it first."""

    because: str


class Exclude(msgspec.Struct, frozen=True):
    """Replace the nodes that the job must not get."""

    nodes: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Suspects that could not be excluded, one phrase a node."""

    def is_set_for(self, facts: JobFacts) -> bool:
        """Whether there is nothing to replace, or Slurm will not have it."""
        return bool(facts.refused) or set(self.nodes) == set(facts.job.excluded)


class Release(msgspec.Struct, frozen=True):
    """Take our hold off."""

    left_out: tuple[str, ...] = ()
    """Suspects that could not be excluded."""


class StartNow(msgspec.Struct, frozen=True):
    """Lift the delay that Slurm puts on a requeued job."""


class Unmark(msgspec.Struct, frozen=True):
    """Take our word out of the job's Comment."""

    because: str


class Hold(msgspec.Struct, frozen=True):
    """End the attempt; the job stays held until a person releases it."""

    because: str


class GiveUp(msgspec.Struct, frozen=True):
    """Nothing can be done for this job."""

    because: str


class Wait(msgspec.Struct, frozen=True):
    """Slurm has to do its part first; look again soon, or after so many seconds where known."""

    because: str
    for_s: float = 0.0


class Leave(msgspec.Struct, frozen=True):
    """Nothing is to be done."""

    because: str


Step = Mark | RequeueHold | Requeue | Exclude | Release | StartNow | Unmark | Hold
Decision = Step | GiveUp | Wait | Leave


def decide(
    facts: JobFacts, nodes: tuple[Node, ...], settings: RequeueSettings, now: float
) -> Decision:
    """The next step for one job that takes part; *now* in Unix seconds."""
    if facts.job.is_running:
        return _while_running(facts, nodes, settings, now)
    if facts.job.is_pending:
        return _while_pending(_dated(facts, now), nodes, settings, now)
    if marked(facts.job.comment) == facts.job.restarts - 1:
        return _while_completing(_dated(facts, now), nodes, settings, now)
    if because := supervisor_end(facts.job):
        return _after_an_accident(facts, settings, because)
    return Leave(f"is {facts.job.state}")


def _while_running(
    facts: JobFacts, nodes: tuple[Node, ...], settings: RequeueSettings, now: float
) -> Decision:
    job, mark = facts.job, marked(facts.job.comment)
    if mark not in {None, job.restarts}:
        return Unmark(f"attempt {job.restarts} runs")
    if facts.unread:
        return Leave(facts.unread)
    incident = facts.incident(job.restarts)
    because = facts.untrusted or "no incident"
    if incident is None or (
        because := misdated(incident, began_at=job.started_at or 0.0, now=now)
    ):
        return Leave(because) if mark is None else Unmark(because)
    answer = _answer(facts, incident, settings)
    if isinstance(answer, RequeueHold) and (
        because := left_to_slurm(facts, incident, nodes, settings, now)
    ):
        return Leave(because)
    return answer


def _answer(facts: JobFacts, incident: Incident, settings: RequeueSettings) -> Decision:
    job, is_marked = facts.job, marked(facts.job.comment) is not None
    if incident.retry in {"stop", "leave"}:
        return Leave(f"{incident.retry}: {incident.reason}")
    if job.preempted_at and job.preempted_at >= (job.started_at or 0.0):
        return Leave("Slurm preempts it, and brings it back itself")
    if not job.can_requeue:
        return GiveUp(f"{incident.reason}; submitted with --no-requeue")
    if because := _against_another_attempt(facts, incident, settings):
        # Marked, the next tick would release it.
        return Unmark(because) if is_marked else Hold(because)
    return RequeueHold(incident.reason) if is_marked else Mark(job.restarts)


def _against_another_attempt(
    facts: JobFacts, incident: Incident, settings: RequeueSettings
) -> str:
    if incident.retry == "hold":
        return incident.reason
    if facts.job.held:
        return f"{incident.reason}; held by its owner or an administrator"
    spent = budget_spent(facts.history, settings)
    return f"{incident.reason}; {spent}" if spent else ""


def _while_completing(
    facts: JobFacts, nodes: tuple[Node, ...], settings: RequeueSettings, now: float
) -> Decision:
    # Slurm takes the excluded nodes as soon as the attempt is on its way out; a begin time it would
    # take too, and forget.
    wanted = _wanted(facts, nodes, settings, now)
    return Wait("the attempt is not yet cleaned up") if wanted.is_set_for(facts) else wanted


def _after_an_accident(facts: JobFacts, settings: RequeueSettings, because: str) -> Decision:
    told = facts.incident(facts.job.restarts)
    if facts.unread or facts.untrusted:
        return Leave(facts.unread or facts.untrusted)
    if told and told.cause != UNTOLD:
        return Leave(f"is {facts.job.state}: {told.reason}")
    if not facts.job.can_requeue:
        return GiveUp(f"{because}; submitted with --no-requeue")
    if spent := budget_spent(facts.history, settings):
        return GiveUp(f"{because}; {spent}")
    return Requeue(because)


def _dated(facts: JobFacts, now: float) -> JobFacts:
    """*facts* of a job on its way back, without incidents that cannot be why."""
    began_at = now - LONGEST_WAIT_S
    credible = (one for one in facts.history if not misdated(one, began_at=began_at, now=now))
    return replace(facts, history=tuple(credible))


def _while_pending(
    facts: JobFacts, nodes: tuple[Node, ...], settings: RequeueSettings, now: float
) -> Decision:
    if not_ours := _not_ours(facts):
        return not_ours
    wanted = _wanted(facts, nodes, settings, now)
    if not wanted.is_set_for(facts):
        return wanted
    settled_at = (now if facts.pending_since is None else facts.pending_since) + SETTLED_S
    if now < settled_at:
        return Wait("its nodes have only just ended the last attempt", settled_at - now)
    return Release(wanted.left_out) if facts.job.held else _start(facts, settings, now)


def _not_ours(facts: JobFacts) -> Decision | None:
    """What to do with a waiting job that is not ours to bring on its way; None where it is."""
    job, mark = facts.job, marked(facts.job.comment)
    if job.restarts == 0:
        return Leave("has not run yet")
    if mark not in {None, job.restarts - 1}:
        return Unmark(f"it speaks of attempt {mark}, {job.restarts - 1} ended last")
    if job.held and mark is None:
        return Leave("held by its owner or an administrator")
    if job.held and job.reason == "JobHeldAdmin":
        return Unmark("an administrator holds it")
    if facts.unread and mark is not None:
        return Leave(facts.unread)
    return None


def _start(facts: JobFacts, settings: RequeueSettings, now: float) -> Decision:
    job, is_marked = facts.job, marked(facts.job.comment) is not None
    if job.begins_at and now + SOON_S < job.begins_at <= now + settings.requeue_delay_s:
        if not is_marked and facts.early_starts >= settings.early_starts:
            return Leave(
                f"started early {facts.early_starts} times already; Slurm's delay stays"
            )
        return StartNow()
    if not is_marked:
        return Leave("waits for its turn")
    incident = facts.incident(job.restarts - 1)
    since = f", {now - incident.detected_at:.1f} s after its incident" if incident else ""
    return Unmark(f"it is on its way{since}")


def _wanted(
    facts: JobFacts, nodes: tuple[Node, ...], settings: RequeueSettings, now: float
) -> Exclude:
    accused = suspects(facts, facts.job.restarts - 1, nodes)
    wanted = exclusion(facts, accused, nodes, settings, now)
    return Exclude(wanted.nodes, wanted.left_out)
