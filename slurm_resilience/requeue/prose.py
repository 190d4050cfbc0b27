"""Decisions as people read them, one line each."""

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
    Unmark,
    Wait,
)


def line(decision: Decision) -> str:  # noqa: C901, PLR0911 - one a decision
    """What is done, and why."""
    match decision:
        case Mark(attempt):
            return f"marks it: attempt {attempt} is to be brought back"
        case RequeueHold(because):
            return f"requeues it: {because}"
        case Requeue(because):
            return f"puts it back into the queue: {because}"
        case Exclude(nodes, left_out):
            return f"excludes {','.join(nodes) or 'no node any more'}{_but(left_out)}"
        case Release(left_out):
            return f"releases it{_but(left_out)}"
        case StartNow():
            return "lifts Slurm's requeue delay"
        case Unmark(because):
            return f"takes the mark off: {because}"
        case Hold(because):
            return f"holds it until somebody releases it: {because}"
        case GiveUp(because):
            return f"gives it up: {because}"
        case Wait(because):
            return f"waits: {because}"
        case Leave(because):
            return f"leaves it: {because}"


def _but(left_out: tuple[str, ...]) -> str:
    return f" ({'; '.join(left_out)})" if left_out else ""
