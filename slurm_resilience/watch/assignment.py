"""What the supervisor tells each agent at its start, through the environment of the step."""

from collections.abc import Mapping

import msgspec

from slurm_resilience.errors import LaunchError
from slurm_resilience.watch.settings import WatchSettings

VARIABLE = "SLURM_RESILIENCE_ASSIGNMENT"
"""Holds the token: it is taken out of the environment that the ranks get."""


class Assignment(msgspec.Struct, frozen=True):
    """One attempt, the same for all its nodes."""

    job: str
    attempt: int
    nodes: int
    token: str
    """Random, for this attempt alone: who knows it may speak to the supervisor."""
    supervisor_port: int
    meeting_port: int
    attempt_directory: str
    meeting_address: str = ""
    """Empty: where srun was started, as this node sees it."""
    ranks_per_node: int | None = None
    """None: one for each GPU."""
    saved_step: int | None = None
    """The newest that earlier attempts knew to be saved."""
    ends_at: float | None = None
    """Unix seconds of the time limit, as it was when the attempt began; None: not known."""
    settings: WatchSettings = WatchSettings()
    job_variables: dict[str, str] = {}
    """Slurm's variables of the batch script that were kept from srun."""


class Place(msgspec.Struct, frozen=True):
    """Where one agent is."""

    node: str
    node_rank: int
    supervisor: str
    """Address of the batch host as this node sees it."""


def to_environment(assignment: Assignment) -> dict[str, str]:
    """The variable that carries *assignment*."""
    return {VARIABLE: msgspec.json.encode(assignment).decode()}


def read(environ: Mapping[str, str]) -> tuple[Assignment, Place]:
    """This agent's assignment and place; `LaunchError` where `run` did not start it."""
    text = environ.get(VARIABLE)
    if text is None:
        raise LaunchError(f"{VARIABLE} is not set: `slurm-resilience run` starts the agents")
    try:
        assignment = msgspec.json.decode(text, type=Assignment)
    except msgspec.DecodeError as error:
        raise LaunchError(f"{VARIABLE} is damaged: {error}") from error
    try:
        place = Place(
            node=environ["SLURMD_NODENAME"],
            node_rank=int(environ["SLURM_NODEID"]),
            supervisor=environ["SLURM_LAUNCH_NODE_IPADDR"],
        )
    except (KeyError, ValueError) as error:
        raise LaunchError(f"this is no task of an srun: {error}") from error
    return assignment, place
