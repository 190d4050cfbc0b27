"""
Reads the incidents of jobs that take part, trusting neither the files nor the file system.

Root reads them as the job's owner: a link, a foreign folder or a permission can then give nothing
that the owner could not read anyway. One child a user, all at once, with one deadline; a job whose
files hang is let alone for a while, its owner's other jobs are read without it.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from slurm_resilience.bounded import Answer, Child, gather
from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.incident import Incident, untold
from slurm_resilience.requeue.rules import supervisor_end
from slurm_resilience.run_directory import (
    attempt_directory,
    read_heartbeats,
    read_incident,
    run_directory_of,
)
from slurm_resilience.slurm.values import Job

FIRST_REST_S = 5.0
LONGEST_REST_S = 60.0


class History(msgspec.Struct, frozen=True):
    """What one job's files say; the words are those of `JobFacts`."""

    incidents: tuple[Incident, ...] = ()
    unread: str = ""
    untrusted: str = ""


class _Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a child says of one job, once it is through with it."""

    job: str
    incidents: tuple[Incident, ...] = ()
    untrusted: str = ""


class _Rest(msgspec.Struct):
    """A job whose files hung: let alone until then, and while its child is stuck."""

    child: Child
    until: float
    length_s: float


class Incidents:
    """Reads; remembers only whose files hung."""

    def __init__(self, *, as_owner: bool, timeout_s: float, attempts: int) -> None:
        """*as_owner* needs root; *attempts*: how many of a job's last attempts count."""
        self._as_owner = as_owner
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._resting: dict[str, _Rest] = {}

    def read(self, jobs: Iterable[Job]) -> dict[str, History]:
        """The history of each job, by job id."""
        histories: dict[str, History] = {}
        by_owner: defaultdict[int, list[Job]] = defaultdict(list)
        for job in jobs:
            if self._is_resting(job.id):
                histories[job.id] = History(
                    unread="its run directory hung; left alone for a while"
                )
            else:
                by_owner[job.user_id].append(job)
        children = {
            user_id: self._start(user_id, theirs) for user_id, theirs in by_owner.items()
        }
        for user_id, answer in gather(children).items():
            found, unread = _parsed(answer), by_owner[user_id]
            unread = [job for job in unread if job.id not in found]
            histories |= found
            for job_id in found:
                self._resting.pop(job_id, None)
            histories |= {
                job.id: History(unread=f"its run directory: {answer.trouble}") for job in unread
            }
            for job in unread[:1]:  # the one it hung at; those behind it were never tried
                self._let_rest(job.id, children[user_id])
        return histories

    def _start(self, user_id: int, jobs: Sequence[Job]) -> Child:
        return Child(
            lambda: (msgspec.json.encode(_found(job, self._attempts)) for job in jobs),
            deadline=time.monotonic() + self._timeout_s,
            as_user=user_id if self._as_owner else None,
        )

    def _is_resting(self, job: str) -> bool:
        rest = self._resting.get(job)
        return rest is not None and (time.monotonic() < rest.until or not rest.child.is_gone())

    def _let_rest(self, job: str, child: Child) -> None:
        before = self._resting.get(job)
        length_s = min(before.length_s * 2, LONGEST_REST_S) if before else FIRST_REST_S
        self._resting[job] = _Rest(child, time.monotonic() + length_s, length_s)


def _parsed(answer: Answer) -> dict[str, History]:
    found = [msgspec.json.decode(item, type=_Found) for item in answer.items]
    return {one.job: History(one.incidents, untrusted=one.untrusted) for one in found}


def _found(job: Job, attempts: int) -> _Found:
    is_over = bool(supervisor_end(job))
    latest = job.restarts if job.is_running or is_over else job.restarts - 1
    earlier = range(max(0, latest - attempts), latest)
    try:
        directory = run_directory_of(job.comment, work_dir=job.work_dir, job=job.id)
        if directory is None:
            return _Found(job.id)
        incident = _read(directory, latest, job)
        if is_over and incident is None:
            # Those before may have ended the same way; all count against another attempt.
            ends = [
                _read(directory, one, job) or _untold(directory, one, job) for one in earlier
            ]
            return _Found(job.id, (*ends, _untold(directory, latest, job)))
    except UntrustedFileError as error:
        return _Found(job.id, untrusted=str(error))
    if incident is None:
        return _Found(job.id)
    return _Found(job.id, (*_readable(directory, earlier, job), incident))


def _untold(directory: Path, attempt: int, job: Job) -> Incident:
    return untold(job.id, attempt, read_heartbeats(directory, attempt, owner=job.user_id))


def _readable(directory: Path, attempts: Iterable[int], job: Job) -> Iterator[Incident]:
    for attempt in attempts:
        with suppress(UntrustedFileError):
            if incident := _read(directory, attempt, job):
                yield incident


def _read(directory: Path, attempt: int, job: Job) -> Incident | None:
    if attempt < 0:
        return None
    for folder in (directory, attempt_directory(directory, attempt)):
        _look_anew(folder)
    incident = read_incident(directory, attempt, owner=job.user_id)
    if incident and incident.job != job.id:
        raise UntrustedFileError(f"{directory}: its incident is one of job {incident.job!r}")
    return incident


def _look_anew(folder: Path) -> None:
    # A network file system remembers for up to a minute that a file was missing; opening the
    # folder makes it ask again.
    with suppress(OSError):
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK))
