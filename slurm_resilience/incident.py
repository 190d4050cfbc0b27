"""
What one attempt of a job leaves as evidence: frozen values, to and from JSON.

`run_directory` says where they lie and reads and writes them.
"""

from typing import Literal

import msgspec

SILENT = "agent-silent"
"""Cause of an incident whose node stopped reporting: Slurm may soon find that node down itself."""

Kind = Literal["crash", "stall", "notice"]
Class = Literal[
    "network", "power", "hardware", "software", "memory", "storage", "checkpoint",
    "user-error", "preemption", "time-limit", "cancelled", "requeued", "unknown",
]  # fmt: skip
Retry = Literal["same-nodes", "exclude-node", "hold", "stop", "leave"]


UNTOLD = "untold"
"""The cause of an incident that nobody was left to write; a reader makes it of what is there."""


class Suspect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node accused by one incident, and why."""

    node: str
    why: str
    rank: int | None = None


class Incident(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why one attempt ended. Times are Unix seconds."""

    job: str
    attempt: int
    kind: Kind
    class_: Class = msgspec.field(name="class")
    cause: str
    """Stable id of the deciding finding, for example `rank-stopped`."""
    reason: str
    """The same in one line for people."""
    retry: Retry
    detected_at: float
    suspects: tuple[Suspect, ...] = ()
    evidence: tuple[str, ...] = ()
    """Lines that decided, the deciding one first."""
    last_step: int | None = None
    saved_step: int | None = None
    """Step of the newest checkpoint known to be whole."""
    progressed_at: float | None = None
    """When the attempt last moved."""


class RankProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rank in a heartbeat summary."""

    rank: int
    node: str
    step: int
    phase: str
    saved_step: int
    age_s: float
    """Seconds since step or phase changed."""


class Heartbeats(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All ranks of one attempt at one moment (Unix seconds)."""

    job: str
    attempt: int
    at: float
    ranks: tuple[RankProgress, ...] = ()


def untold(job: str, attempt: int, told: Heartbeats | None) -> Incident:
    """
    What can still be told of an attempt whose supervisor wrote no incident, from its last summary.

    Without one `detected_at` is 0: when it ended nobody knows.
    """
    ranks = told.ranks if told else ()
    step = max((rank.step for rank in ranks), default=-1)
    saved = max((rank.saved_step for rank in ranks), default=-1)
    return Incident(
        job=job, attempt=attempt, kind="crash", class_="unknown", cause=UNTOLD,
        reason="it ended without a word", retry="same-nodes", detected_at=told.at if told else 0.0,
        last_step=step if step >= 0 else None, saved_step=saved if saved >= 0 else None,
    )  # fmt: skip
