"""Where an attempt keeps its files, and how others find that: the job's Comment."""

import logging
from pathlib import Path

from slurm_resilience.comment import TOKEN
from slurm_resilience.errors import LaunchError, SlurmError
from slurm_resilience.launch.job import ThisJob
from slurm_resilience.run_directory import (
    attempt_directory,
    run_directory_of,
    with_run_directory,
)
from slurm_resilience.slurm.door import Slurm
from slurm_resilience.slurm.values import Job
from slurm_resilience.watch.environment import FLIGHT_RECORDER_FOLDER

MOUNTS = Path("/proc/self/mounts")
IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
TEMPORARY = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - named, not used

log = logging.getLogger(__name__)


def choose(asked: Path | None, known: Job | None, this: ThisJob) -> Path:
    """What was asked for; else what the Comment says; else `slurm-resilience/<job id>`."""
    if asked is not None:
        return this.submit_directory / asked
    named = known and run_directory_of(
        known.comment, work_dir=known.work_dir or str(this.submit_directory), job=this.id
    )
    return named or this.submit_directory / TOKEN / this.id


def make(directory: Path, attempt: int) -> None:
    """Make the attempt's directories; `LaunchError` where that cannot be."""
    wanted = attempt_directory(directory, attempt) / FLIGHT_RECORDER_FOLDER
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        # A `run` before this one, in the same batch script, may have left one.
        (wanted.parent / "incident.json").unlink(missing_ok=True)
    except OSError as error:
        raise LaunchError(
            f"{error.filename}: {error.strerror}; --run-dir names a directory for the job's"
            " records that can be written on its nodes"
        ) from error


def warn_where_local(directory: Path, this: ThisJob, mounts: Path = MOUNTS) -> None:
    """Say so where *directory* lies in this node's own memory: other nodes do not see it."""
    if this.nodes > 1 and is_in_memory(directory, mounts):
        log.warning(
            "%s is this node's alone: the next attempt may not find what this one leaves;"
            " --run-dir names a directory that all nodes share",
            directory,
        )


def is_in_memory(directory: Path, mounts: Path) -> bool:
    """Whether *directory* lies on a tmpfs or among temporary files; False where that is unknown."""
    real = directory.resolve()
    try:
        lines = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:
        lines = []
    types = {Path(words[1]): words[2] for words in lines if len(words) > 2}  # noqa: PLR2004
    kind = next((types[path] for path in [real, *real.parents] if path in types), "")
    return kind in IN_MEMORY or any(real.is_relative_to(path) for path in TEMPORARY)


def announce(directory: Path, known: Job, slurm: Slurm) -> None:
    """Name *directory* in the job's Comment; what others wrote there stays."""
    comment = with_run_directory(known.comment, directory)
    if comment == known.comment:
        return
    try:
        slurm.set_comment(known.id, comment)
    except SlurmError as error:
        log.warning("the job's Comment cannot be set, no controller will see it: %s", error)
