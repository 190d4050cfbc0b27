"""What a dead attempt left behind: frozen values."""

import msgspec

from slurm_resilience.incident import Incident


class RankError(msgspec.Struct, frozen=True):
    """The error file of one rank, as our own `training` writes it."""

    message: str
    """Exception and traceback, one text."""
    at: float = 0.0
    """Unix seconds."""


class NodeEnd(msgspec.Struct, frozen=True):
    """How the command ended on one node."""

    node: str
    status: int | None = None
    """As a shell gives it: 128 + signal; None: nobody told."""
    stderr: tuple[str, ...] = ()
    """Its last lines, oldest first."""
    stdout: tuple[str, ...] = ()
    errors: tuple[RankError, ...] = ()


class Said(msgspec.Struct, frozen=True):
    """A line that may matter, and what stands around it."""

    text: str
    file: str = ""
    line: int | None = None
    """From 1; None in a file of which the beginning was not read."""
    offset: int = 0
    """Bytes from the beginning of the file."""
    at: float | None = None
    """Seconds since the beginning of the year, of this line or the last stamp before it."""
    survived: bool = False
    """The program went on for many steps after it."""
    before: tuple[str, ...] = ()
    """Lines just before it, oldest first, where they may explain it."""
    rank: int | None = None
    """Of the file, where its place tells."""
    local_rank: int | None = None
    node: str | None = None
    """Who printed it, where that is known for sure."""


class Record(msgspec.Struct, frozen=True):
    """What Slurm's own record says of the attempt."""

    state: str
    """As sacct writes it: TIMEOUT, PREEMPTED, NODE_FAIL, OUT_OF_MEMORY, CANCELLED, FAILED, …"""
    nodes: tuple[str, ...] = ()


class Left(msgspec.Struct, frozen=True):
    """All that was found of one attempt."""

    said: tuple[Said, ...] = ()
    record: Record | None = None
    incident: Incident | None = None
    """What our own watchers concluded, who saw more than text."""
    slowed: Said | None = None
    """The progress line before which the time per step had grown several-fold, near the end."""
    domains: dict[str, str] = {}
    """Failure domain (rack, feed, switch) of a node, where a site says so."""
    nodes: tuple[str, ...] = ()
    """All nodes of the attempt, where they are known."""
