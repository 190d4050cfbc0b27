"""What earlier attempts and checkpoints of a training have shown."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.errors import LedgerError
from slurm_resilience.incident import Incident, untold
from slurm_resilience.ledger import starts_of
from slurm_resilience.planning.facts import Measured
from slurm_resilience.requeue.rules import supervisor_end
from slurm_resilience.slurm.values import Job
from slurm_resilience.story import Attempt, Story

NO_FAULTS = frozenset({"user-error", "cancelled", "preemption", "time-limit", "requeued"})
"""Classes of ends that another run of the same training would not meet by itself."""


def of_checkpoints(directory: Path) -> Measured:
    """Size, time of a save and of a step; raises `CheckpointPlaceError` where it cannot be read."""
    manifests = [entry.manifest for entry in found(directory) if entry.manifest]
    if not manifests:
        return Measured(notes=(f"{directory}: no checkpoint there",))
    steps = [
        (newer.saved_at - older.saved_at) / (newer.step - older.step)
        for newer, older in pairwise(manifests)
        if newer.job == older.job
        and newer.step > older.step
        and newer.saved_at > older.saved_at
    ]
    return Measured(
        size_bytes=manifests[0].size_bytes,
        save_s=max(manifest.took_s for manifest in manifests),
        step_s=median(steps) if steps else None,
    )


def of_job(story: Story, ledgers: Sequence[Path], *, now: float) -> Measured:
    """Failures, running time and time away, as the run directory, the ledger and Slurm tell."""
    notes = [story.unread] if story.unread else []
    starts: dict[int, float] = {}
    for path in ledgers:
        starts |= _starts(path, story.job.id, notes)
    ends = ((one.attempt, _end(story.job, one)) for one in story.attempts)
    incidents = {attempt: end for attempt, end in ends if end}
    notes += [one.untrusted for one in story.attempts if one.untrusted]
    return _of_attempts(story.job, incidents, starts, notes=tuple(notes), now=now)


def _end(job: Job, one: Attempt) -> Incident | None:
    """How an attempt of *job* ended; None where it has not, or nobody knows when."""
    if one.incident is not None:
        return one.incident if one.incident.job == job.id else None
    is_last = one.attempt >= job.restarts
    told = one.heartbeats
    if told is None or told.job != job.id or (is_last and not supervisor_end(job)):
        return None
    return untold(job.id, one.attempt, told)


def _starts(ledger: Path, job: str, notes: list[str]) -> dict[int, float]:
    try:
        return starts_of(ledger, job)
    except LedgerError as error:
        notes.append(str(error))
        return {}


def _of_attempts(
    job: Job,
    incidents: Mapping[int, Incident],
    starts: Mapping[int, float],
    *,
    notes: tuple[str, ...],
    now: float,
) -> Measured:
    known = dict(starts)
    if job.is_running and job.started_at is not None:
        known[job.restarts] = job.started_at
    ran_s = 0.0
    failures = 0
    away = []
    for attempt, incident in incidents.items():
        start = known.get(attempt)
        if start is not None and incident.detected_at > start:
            ran_s += incident.detected_at - start
            failures += is_failure(incident)
        following = known.get(attempt + 1)
        moved_at = incident.progressed_at or incident.detected_at
        if is_failure(incident) and following is not None and following > moved_at:
            away.append(following - moved_at)
    if job.is_running and job.restarts in known and job.restarts not in incidents:
        ran_s += max(0.0, now - known[job.restarts])
    return Measured(
        failures=failures,
        ran_s=ran_s,
        away_s=fmean(away) if away else None,
        notes=tuple(dict.fromkeys(notes)),
    )


def is_failure(incident: Incident) -> bool:
    """Whether the attempt ended by a fault that may come again at any time."""
    return incident.kind != "notice" and incident.class_ not in NO_FAULTS


def together(checkpoints: Measured, job: Measured) -> Measured:
    """What both tell."""
    return Measured(
        size_bytes=checkpoints.size_bytes,
        save_s=checkpoints.save_s,
        step_s=checkpoints.step_s,
        failures=job.failures,
        ran_s=job.ran_s,
        away_s=job.away_s,
        notes=checkpoints.notes + job.notes,
    )
