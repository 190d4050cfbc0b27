"""What an attempt left to say -> its incident. Pure: times come in."""

from collections.abc import Mapping, Sequence

import msgspec

from slurm_resilience.diagnosis.facts import NodeEnd
from slurm_resilience.diagnosis.findings import Verdict
from slurm_resilience.diagnosis.verdict import diagnose
from slurm_resilience.incident import Heartbeats, Incident, Kind, RankProgress
from slurm_resilience.watch.facts import JobFacts, Notice
from slurm_resilience.watch.policy import HARD, Blame, accuse
from slurm_resilience.watch.rules import Finding, explained
from slurm_resilience.watch.stacks import odd_ones

MOST_EVIDENCE = 20
MOST_REASONS = 3


class Attempt(msgspec.Struct, frozen=True):
    """Which attempt is spoken of, and this moment on both clocks."""

    job: str
    number: int
    steady: float
    """The supervisor's clock, as in `JobFacts`."""
    unix: float


def stall(
    attempt: Attempt, job: JobFacts, cause: Finding, evidence: Sequence[Finding]
) -> Incident:
    """An attempt that was ended because it could not go on."""
    others = [each for each in evidence if (each.id, each.node) != (cause.id, cause.node)]
    blame = accuse([cause, *others], len(job.nodes))
    details = list(dict.fromkeys([cause.detail, *blame.evidence]))
    return _incident(
        attempt,
        job,
        "crash" if cause.id == "agent-lost" else "stall",
        msgspec.structs.replace(blame, evidence=(*details, *explained(job))),
        "; ".join(details[:MOST_REASONS]),
    )


def stack_findings(job: JobFacts, stacks: Mapping[int, str]) -> list[Finding]:
    """Who stands elsewhere than the rest, and who did not answer while others did."""
    places = {rank.rank: node for node, rank in job.ranks()}
    answers = {rank: text for rank, text in stacks.items() if text}
    found = [
        Finding(
            "rank-mute", f"rank {rank} on {places[rank]} did not answer", places[rank], rank
        )
        for rank, text in stacks.items()
        if not text and answers and rank in places
    ]
    for rank, where in odd_ones(answers).items():
        if rank in places:
            text = f"rank {rank} on {places[rank]} stands at {where}"
            found.append(Finding("rank-odd-stack", text, places[rank], rank))
    return found


def crash(
    attempt: Attempt,
    job: JobFacts,
    ends: Sequence[NodeEnd],
    launcher: Sequence[str],
    evidence: Sequence[Finding],
) -> Incident:
    """
    An attempt whose command failed.

    What the hardware says outranks a text that only says same-nodes: a victim's complaint, or
    a cause that the hardware explains. After a notice such a text says no more than that the
    ranks did not stop in good order.
    """
    verdict = diagnose(ends, launcher, job.nodes)
    blame = accuse([finding for finding in evidence if finding.id in HARD], len(job.nodes))
    if blame.suspects and verdict.retry == "same-nodes":
        told = (*blame.evidence, *verdict.evidence)
        reason = "; ".join([blame.evidence[0], verdict.reason])
        return _incident(
            attempt, job, "crash", msgspec.structs.replace(blame, evidence=told), reason
        )
    if job.notice is not None and verdict.retry == "same-nodes":
        return notice(attempt, job, job.notice, how=f"failed while stopping ({verdict.reason})")
    return _incident(attempt, job, "crash", verdict, verdict.reason)


def notice(attempt: Attempt, job: JobFacts, why: Notice, *, how: str) -> Incident:
    """An attempt that stopped because Slurm asked for it; *how* it went, for people."""
    step = job.progress.highest_step
    what = f"{NOTICES[why]}; {how}" + (f" after step {step}" if step >= 0 else "")
    blame = Blame(
        why, why, "same-nodes" if why == "time-limit" else "leave", suspects=(), evidence=()
    )
    return _incident(attempt, job, "notice", blame, what)


NOTICES: dict[Notice, str] = {
    "time-limit": "the time limit comes near",
    "preemption": "Slurm asked the step to stop",
}


def summary(attempt: Attempt, job: JobFacts) -> Heartbeats:
    """How far each rank is."""
    ranks = []
    for node, rank in sorted(job.ranks(), key=lambda pair: pair[1].rank):
        heard_at = job.nodes[node].heard_at
        since = 0.0 if heard_at is None else attempt.steady - heard_at
        ranks.append(
            RankProgress(
                rank.rank, node, rank.step, rank.phase, rank.saved_step, rank.age_s + since
            )
        )
    return Heartbeats(attempt.job, attempt.number, attempt.unix, tuple(ranks))


def _incident(
    attempt: Attempt, job: JobFacts, kind: Kind, why: Blame | Verdict, reason: str
) -> Incident:
    progress = job.progress
    moved_at = attempt.unix - (attempt.steady - progress.moved_at)
    saved = max((rank.saved_step for _, rank in job.ranks()), default=-1)
    return Incident(
        job=attempt.job,
        attempt=attempt.number,
        kind=kind,
        class_=why.class_,
        cause=why.cause,
        reason=reason,
        retry=why.retry,
        detected_at=attempt.unix,
        suspects=why.suspects,
        evidence=why.evidence[:MOST_EVIDENCE],
        last_step=progress.highest_step if progress.highest_step >= 0 else None,
        saved_step=saved if saved >= 0 else None,
        progressed_at=moved_at if progress.steps_seen else None,
    )
