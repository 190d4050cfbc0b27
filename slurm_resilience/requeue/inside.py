"""Requeue from inside the job, for the supervisor, where no controller has claimed it."""

import time
from collections.abc import Sequence

from slurm_resilience.errors import SlurmError
from slurm_resilience.requeue.facts import JobFacts
from slurm_resilience.requeue.mark import marked
from slurm_resilience.requeue.rules import Exclusion, exclusion
from slurm_resilience.requeue.settings import RequeueSettings
from slurm_resilience.slurm.door import Slurm
from slurm_resilience.slurm.values import Job

POLL_S = 0.1


def is_claimed(job: Job) -> bool:
    """Whether a controller has said, in the job's Comment, that it brings this attempt back."""
    return marked(job.comment) == job.restarts


def requeue_own_job(
    slurm: Slurm,
    job_id: str,
    *,
    exclude: Sequence[str],
    hold: bool = False,
    deadline_s: float = 20.0,
) -> Exclusion:
    """
    Requeue the job that this process belongs to, without *exclude* as far as there is room.

    Slurm takes excluded nodes only once the attempt is on its way out, and by then it has sent
    SIGTERM to everything in the job: the caller must not die of that (it has KillWait seconds), and
    a command of ours may; so each is tried again until *deadline_s*. Slurm's delay of two minutes
    stays: nobody inside can lift it.

    Returns what is excluded now. Raises `SlurmError` where the job cannot be requeued (nothing was
    changed then), or where its nodes could not be excluded in time (it is requeued all the same).
    """
    before = slurm.job(job_id)
    if before is None:
        raise SlurmError(f"job {job_id}: Slurm does not know it")
    if not before.can_requeue:
        raise SlurmError(f"job {job_id}: submitted with --no-requeue; submit it again")
    wanted = exclusion(
        JobFacts(before), exclude, slurm.nodes(), RequeueSettings(), now=time.time()
    )
    slurm.requeue(job_id, hold=hold)
    if set(wanted.nodes) != set(before.excluded):
        _exclude(slurm, job_id, wanted, until=time.monotonic() + deadline_s)
    return wanted


def _exclude(slurm: Slurm, job_id: str, wanted: Exclusion, *, until: float) -> None:
    while True:
        try:
            slurm.set_excluded(job_id, wanted.nodes)
        except SlurmError:  # noqa: PERF203 - trying again is the point
            if time.monotonic() > until:
                raise
            time.sleep(POLL_S)
        else:
            return
