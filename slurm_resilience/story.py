"""What happened to a job so far, told from Slurm and from its run directory."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from slurm_resilience.bounded import ask
from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.incident import Heartbeats, Incident
from slurm_resilience.run_directory import read_heartbeats, read_incident, run_directory_of
from slurm_resilience.slurm.values import Job

MOST_ATTEMPTS = 100
_ATTEMPT = re.compile(r"attempt-([0-9]{1,9})")


class Attempt(msgspec.Struct, frozen=True):
    """One attempt, as its files tell it."""

    attempt: int
    incident: Incident | None = None
    heartbeats: Heartbeats | None = None
    untrusted: str = ""
    """Why a file of it will not be used."""


class Story(msgspec.Struct, frozen=True):
    """One job."""

    job: Job
    run_directory: str = ""
    attempts: tuple[Attempt, ...] = ()
    unread: str = ""


def tell(jobs: Sequence[Job], *, as_owner: bool, timeout_s: float) -> list[Story]:
    """The story of each job; files are read as their owner where *as_owner* (root)."""
    return [_told(job, as_owner, timeout_s) for job in jobs]


def _told(job: Job, as_owner: bool, timeout_s: float) -> Story:  # noqa: FBT001
    try:
        directory = run_directory_of(job.comment, work_dir=job.work_dir, job=job.id)
    except UntrustedFileError as error:
        return Story(job, unread=str(error))
    if directory is None:
        return Story(job)
    answer = ask(
        lambda: map(msgspec.json.encode, _attempts(directory, job.user_id)),
        deadline_s=timeout_s,
        as_user=job.user_id if as_owner else None,
    )
    attempts = [msgspec.json.decode(item, type=Attempt) for item in answer.items]
    return Story(job, str(directory), tuple(attempts), answer.trouble)


def _attempts(directory: Path, owner: int) -> Iterator[Attempt]:
    numbers: list[int] = []
    with suppress(FileNotFoundError):
        found = (_ATTEMPT.fullmatch(path.name) for path in directory.iterdir())
        numbers = sorted(int(match[1]) for match in found if match)
    for number in numbers[-MOST_ATTEMPTS:]:
        yield _attempt(directory, number, owner)


def _attempt(directory: Path, number: int, owner: int) -> Attempt:
    try:
        return Attempt(
            number,
            read_incident(directory, number, owner=owner),
            read_heartbeats(directory, number, owner=owner),
        )
    except UntrustedFileError as error:
        return Attempt(number, untrusted=str(error))
