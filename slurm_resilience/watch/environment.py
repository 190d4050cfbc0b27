"""What ranks find in their environment; whatever the user has set stays."""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from slurm_resilience.watch.assignment import VARIABLE, Assignment
from slurm_resilience.watch.heartbeat import DIRECTORY_VARIABLE

FLIGHT_RECORDER = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
}
"""Older and newer names; the buffer is off by default, and without it a timed-out collective
leaves nothing to read."""
FLIGHT_RECORDER_FILES = ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE")
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


def for_ranks(
    environ: Mapping[str, str], assignment: Assignment, here: Surroundings
) -> dict[str, str]:
    """
    The command's environment.

    NCCL is left to choose its interface: it prefers the fast fabric, which need not be the one
    that leads to the batch host.
    """
    defaults = {
        **assignment.job_variables,
        **FLIGHT_RECORDER,
        "OMP_NUM_THREADS": str(max(1, _cpus(environ) // here.ranks_here)),
    }
    if assignment.attempt_directory:
        prefix = f"{assignment.attempt_directory}/{FLIGHT_RECORDER_FOLDER}/rank-"
        defaults |= dict.fromkeys(FLIGHT_RECORDER_FILES, prefix)
    if here.interface:
        defaults["GLOO_SOCKET_IFNAME"] = here.interface
    if here.shield:
        defaults |= SHIELD
    kept = {name: value for name, value in environ.items() if name != VARIABLE}
    return {**defaults, **kept, DIRECTORY_VARIABLE: str(here.heartbeats)}


def is_tracked_by_parents(cgroups: str) -> bool:
    """
    Whether Slurm finds a step's processes by their parents, not by a cgroup; *cgroups* is
    /proc/self/cgroup.

    Then a preemption's SIGTERM reaches every rank by itself, and would end them before they
    could save: they are started so that they ignore it. With cgroups it reaches the agent alone.
    """
    return not re.search(r"(?m)^\d+:(?:[\w,]*\bfreezer\b[\w,]*)?:.*/job_\d+/step_", cgroups)


def _cpus(environ: Mapping[str, str]) -> int:
    given = environ.get("SLURM_CPUS_ON_NODE", "")
    return int(given) if given.isdecimal() else 1
