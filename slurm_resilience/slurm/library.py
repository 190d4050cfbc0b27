"""
Slurm through libslurm. The only module that knows `pyslurm`.

It reads: one exchange with slurmctld (1 ms) where `squeue` is a process that prints text (15 ms). It
does not write: pyslurm asks for a requeue by the raw number, and one task of every array has the
array's, so that all tasks would go back. What is changed goes through `scontrol`.
"""

import importlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from slurm_resilience.errors import ConfigError, SlurmError, SlurmSilentError
from slurm_resilience.slurm.commands import SILENT, Commands
from slurm_resilience.slurm.reading import RawJob, RawNode, jobs_of, node_of
from slurm_resilience.slurm.values import Job, Node

CONFIGURATIONS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/opt/slurm/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
)
HELD_BY_REQUEUE = "job requeued in held state"
"""What Slurm describes a job as that `requeuehold` holds; the reason beneath is JobHeldUser."""

_VERSION = re.compile(r"(\d+)\.(\d+)\.")


class Library(Commands):
    """Reads by pyslurm, whose version must equal Slurm's; writes as `Commands`."""

    def __init__(self, *, bin_dir: str = "", timeout_s: float = 10.0) -> None:
        """`ConfigError` where pyslurm cannot be used here, in one line that says why."""
        super().__init__(bin_dir=bin_dir, timeout_s=timeout_s)
        self._pyslurm = _loaded(self.version())

    def jobs(self, *, user_id: int | None = None) -> tuple[Job, ...]:
        """See `Slurm.jobs`. Slurm's MessageTimeout bounds it, not ours."""
        with self._translated("loading jobs"):
            raws = [_job(job) for job in self._pyslurm.Jobs.load().values()]
        try:
            return tuple(job for job in jobs_of(raws) if user_id in {None, job.user_id})
        except ValueError as error:
            raise SlurmError(f"pyslurm: {error}") from error

    def job(self, job: str) -> Job | None:
        """See `Slurm.job`."""
        return next((one for one in self.jobs() if one.id == job), None)

    def nodes(self, names: Sequence[str] = ()) -> tuple[Node, ...]:
        """See `Slurm.nodes`. A node that is MIXED is told as ALLOCATED."""
        with self._translated("loading nodes"):
            raws = [_node(node) for node in self._pyslurm.Nodes.load().values()]
        return tuple(node_of(raw) for raw in raws if not names or raw.name in names)

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._pyslurm.PyslurmError as error:
            kind = SlurmSilentError if SILENT.search(str(error)) else SlurmError
            raise kind(f"pyslurm: {what}: {error}") from error


def _loaded(slurm: tuple[int, int]) -> ModuleType:
    # Looked for first: where there is none, importing pyslurm prints a line and ends the process.
    named = os.environ.get("SLURM_CONF")
    places = [named] if named else CONFIGURATIONS
    if not any(Path(place).is_file() for place in places):
        raise ConfigError(
            f"slurm.adapter: pyslurm needs a slurm.conf; there is none at {', '.join(places)}"
        )
    wanted = f"install the release for Slurm {slurm[0]}.{slurm[1]:02d}, or set slurm.adapter: commands"
    try:
        version = metadata.version("pyslurm")
    except metadata.PackageNotFoundError as error:
        raise ConfigError(f"slurm.adapter: pyslurm is not installed; {wanted}") from error
    found = _VERSION.match(version)
    if not found or (int(found[1]), int(found[2])) != slurm:
        raise ConfigError(f"slurm.adapter: pyslurm is {version}; {wanted}")
    try:
        return importlib.import_module("pyslurm")
    except ImportError as error:
        raise ConfigError(
            f"slurm.adapter: pyslurm cannot be loaded: {error}; {wanted}"
        ) from error


def _job(job: Any) -> RawJob:  # noqa: ANN401 - pyslurm has no types
    reason, waiting, task = job.state_reason, job.array_tasks_waiting, job.array_task_id
    if job.array_id and task is None and not waiting:
        task = 0  # which pyslurm takes for "none"
    return RawJob(
        job_id=job.id,
        job_state=job.state,
        user_id=job.user_id,
        array_job_id=job.array_id,
        array_task_id=task,
        array_task_string=waiting,
        het_job_id=job.heterogeneous_id,
        state_reason="JobHeldUser" if reason == HELD_BY_REQUEUE else reason,
        restart_cnt=job.requeue_count,
        nodes=job.allocated_nodes,
        node_count=job.num_nodes,
        excluded_nodes=job.excluded_nodes,
        required_nodes=job.required_nodes,
        comment=_comment(job),
        partition=job.partition,
        current_working_directory=job.working_directory,
        standard_output=job.standard_output,
        standard_error=job.standard_error,
        requeue=bool(job.is_requeueable),
        priority=job.priority,
        eligible_time=job.eligible_time,
        start_time=job.start_time,
        end_time=job.end_time,
        preempt_time=job.preempt_time,
        exit_code=job.exit_code_signal or 0,  # as wait(2) says it: the low bits are the signal
    )


def _comment(job: Any) -> str:  # noqa: ANN401 - pyslurm has no types
    try:
        return job.comment or ""
    except UnicodeDecodeError:
        return ""  # a user may write any bytes there; it takes no part then


def _node(node: Any) -> RawNode:  # noqa: ANN401 - pyslurm has no types
    return RawNode(
        name=node.name,
        state=node.state,
        reason=node.reason,
        reason_changed_at=node.reason_time,
        boot_time=node.boot_time,
        partitions=node.partitions or [],
    )
