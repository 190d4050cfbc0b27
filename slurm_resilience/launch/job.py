"""This job as its batch script's environment tells it."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from slurm_resilience.errors import LaunchError


class ThisJob(msgspec.Struct, frozen=True):
    """The job that the supervisor runs in."""

    id: str
    """As Slurm's commands take it: `12`, or `12_3` for an array task."""
    number: str
    """Slurm's own id, different for each array task."""
    attempt: int
    nodes: int
    node: str
    """The batch host."""
    submit_directory: Path


def read(environ: Mapping[str, str]) -> ThisJob:
    """
    The job of this environment.

    Raises `LaunchError` outside a batch script: one line that says what to do.
    """
    number = environ.get("SLURM_JOB_ID")
    if not number:
        raise LaunchError(
            "SLURM_JOB_ID is not set, so this is no Slurm job; put the line into a batch script"
            " and submit that with sbatch"
        )
    if "SLURM_STEP_ID" in environ or "SLURMD_NODENAME" not in environ:
        raise LaunchError(
            f"job {number}: `run` starts one srun for all nodes, so it is called once, in the"
            " batch script itself: not through srun, and not from salloc's shell"
        )
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    try:
        return ThisJob(
            id=f"{array}_{task}" if array and task else number,
            number=number,
            attempt=int(environ.get("SLURM_RESTART_COUNT", "0")),
            nodes=int(environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES") or "1"),
            node=environ["SLURMD_NODENAME"],
            submit_directory=Path(environ.get("SLURM_SUBMIT_DIR") or "."),
        )
    except ValueError as error:
        raise LaunchError(f"job {number}: Slurm's environment is not whole: {error}") from error
