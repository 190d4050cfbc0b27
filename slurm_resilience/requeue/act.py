"""Carries steps out, one after the other, looking at the job again before each."""

from collections.abc import Callable, Iterator
from typing import NoReturn

from msgspec.structs import replace

from slurm_resilience.errors import SlurmError, SlurmSilentError
from slurm_resilience.requeue.facts import JobFacts
from slurm_resilience.requeue.mark import with_mark, without_mark
from slurm_resilience.requeue.policy import (
    Decision,
    Exclude,
    GiveUp,
    Hold,
    Leave,
    Mark,
    Release,
    Requeue,
    RequeueHold,
    StartNow,
    Step,
    Unmark,
    Wait,
    decide,
)
from slurm_resilience.requeue.settings import RequeueSettings
from slurm_resilience.slurm.door import Slurm
from slurm_resilience.slurm.values import Job, Node


def bring_on(  # noqa: PLR0913, PLR0917 - a job, what is known, and the world
    job: Job | None,
    known: Callable[[Job], JobFacts],
    nodes: tuple[Node, ...],
    slurm: Slurm,
    settings: RequeueSettings,
    now: Callable[[], float],
) -> Iterator[tuple[JobFacts, Decision]]:
    """
    Decide, hand the decision out, carry it out when asked for the next; until there is no step.

    *known* tells what is known of the job as it stands: a requeue makes it another attempt. Whoever
    stops asking has changed nothing since the last decision handed out. Raises what the door
    raises, except where Slurm will not have the excluded nodes: the job goes on without.
    """
    taken: set[type] = set()
    refused, is_fresh = "", False
    while job is not None:
        facts = known(job)
        facts = replace(facts, refused=refused or facts.refused)
        decision = decide(facts, nodes, settings, now())
        if not is_fresh and not isinstance(decision, GiveUp | Wait | Leave):
            # The job was read with all others, some time ago: look again before the first step.
            job, is_fresh = slurm.job(job.id), True
            continue
        yield facts, decision
        # The same step twice: it had no effect. The next tick may know more.
        if isinstance(decision, GiveUp | Wait | Leave) or type(decision) in taken:
            return
        taken.add(type(decision))
        try:
            apply(decision, job, slurm)
        except SlurmSilentError:
            raise
        except SlurmError as error:
            if not isinstance(decision, Exclude):
                raise
            refused = str(error)
        job = slurm.job(job.id)


def apply(step: Step, job: Job, slurm: Slurm) -> None:
    """Carry one step out on *job* as it was just read."""
    match step:
        case Mark(attempt):
            slurm.set_comment(job.id, with_mark(job.comment, attempt))
        case RequeueHold() | Hold():
            slurm.requeue(job.id, hold=True)
        case Requeue():
            slurm.requeue(job.id, hold=False)
        case Exclude(nodes):
            slurm.set_excluded(job.id, nodes)
        case Release():
            slurm.release(job.id)
        case StartNow():
            slurm.start_now(job.id)
        case Unmark():
            slurm.set_comment(job.id, without_mark(job.comment))
        case _:
            _never(step)


def _never(step: NoReturn) -> NoReturn:
    """What `typing.assert_never` is from Python 3.11 on."""
    raise AssertionError(step)
