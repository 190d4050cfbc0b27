"""What ranks find in their environment; whatever the user has set stays."""

import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import msgspec

from slurm_resilience.lead import END_VARIABLE
from slurm_resilience.watch.assignment import VARIABLE, Assignment
from slurm_resilience.watch.heartbeat import (
    ATTEMPT_VARIABLE,
    DIRECTORY_VARIABLE,
    SAVED_VARIABLE,
)

RECORDED_COLLECTIVES = "2000"
"""NCCL's flight recorder is off in older versions of torch, and without it a collective that
timed out leaves nothing to read."""
FLIGHT_RECORDER = {"size": "TORCH_FR_BUFFER_SIZE", "file": "TORCH_FR_DUMP_TEMP_FILE"}
OLD_FLIGHT_RECORDER = {
    "size": "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "file": "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
}
RENAMED = (2, 10)
"""From here on at the latest torch takes the new names, and warns of the old ones."""
FLIGHT_RECORDER_FOLDER = "nccl"
SHIELD = {
    "PET_SIGNALS_TO_HANDLE": "SIGINT,SIGHUP,SIGQUIT",
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "5",
}
"""torchrun takes any signal it handles as the end; without SIGTERM among them it keeps ignoring
that, and then its own way to end ranks (SIGTERM, wait, SIGKILL) must not wait long."""


class Surroundings(msgspec.Struct, frozen=True):
    """What the agent found out about its node."""

    heartbeats: Path
    ranks_here: int
    interface: str | None
    """Where this node's line to the batch host goes out; None for a job of one node."""
    shield: bool
    """The ranks ignore SIGTERM, see `is_tracked_by_parents`."""
    torch: tuple[int, int] | None
    """Its version; None where this environment has none."""


def for_ranks(
    environ: Mapping[str, str], assignment: Assignment, here: Surroundings
) -> dict[str, str]:
    """
    The command's environment.

    NCCL is left to choose its interface: it prefers the fast fabric, which need not be the one
    that leads to the batch host.
    """
    names = OLD_FLIGHT_RECORDER if here.torch and here.torch < RENAMED else FLIGHT_RECORDER
    defaults = {
        **assignment.job_variables,
        names["size"]: RECORDED_COLLECTIVES,
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "OMP_NUM_THREADS": str(max(1, _cpus(environ) // here.ranks_here)),
    }
    if assignment.attempt_directory:
        folder = f"{assignment.attempt_directory}/{FLIGHT_RECORDER_FOLDER}"
        defaults[names["file"]] = f"{folder}/rank-"
    if assignment.saved_step is not None:
        defaults[SAVED_VARIABLE] = str(assignment.saved_step)
    if assignment.ends_at is not None:
        defaults[END_VARIABLE] = str(int(assignment.ends_at))
    if here.interface:
        defaults["GLOO_SOCKET_IFNAME"] = here.interface
    if here.shield:
        defaults |= SHIELD
    kept = {name: value for name, value in environ.items() if name != VARIABLE}
    ours = {
        DIRECTORY_VARIABLE: str(here.heartbeats),
        ATTEMPT_VARIABLE: assignment.attempt_directory,
    }
    return {**defaults, **kept, **ours}


def is_tracked_by_parents(cgroups: str) -> bool:
    """
    Whether Slurm finds a step's processes by their parents, not by a cgroup; *cgroups* is
    /proc/self/cgroup.

    Then a preemption's SIGTERM reaches every rank by itself, and would end them before they
    could save: they are started so that they ignore it. With cgroups it reaches the agent alone.
    """
    return not re.search(r"(?m)^\d+:(?:[\w,]*\bfreezer\b[\w,]*)?:.*/job_\d+/step_", cgroups)


def torch_version() -> tuple[int, int] | None:
    """That of torch in this environment, without importing it."""
    try:
        found = re.match(r"(\d+)\.(\d+)", metadata.version("torch"))
    except metadata.PackageNotFoundError:
        return None
    return (int(found[1]), int(found[2])) if found else None


def _cpus(environ: Mapping[str, str]) -> int:
    given = environ.get("SLURM_CPUS_ON_NODE", "")
    return int(given) if given.isdecimal() else 1
