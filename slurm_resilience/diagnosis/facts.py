"""What a dead attempt left behind: frozen values."""

import msgspec

from slurm_resilience.incident import Class, Retry, Suspect


class RankError(msgspec.Struct, frozen=True):
    """The error file of one rank, as torch's elastic launcher and `record` write it."""

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


class Verdict(msgspec.Struct, frozen=True):
    """What the text says, before anything else is known of the attempt."""

    class_: Class
    cause: str
    """Id of the row that decided, or `user-error` or `unknown`."""
    reason: str
    """One line for people."""
    retry: Retry
    suspects: tuple[Suspect, ...] = ()
    evidence: tuple[str, ...] = ()
    """Lines that decided, the deciding one first."""
    is_clear: bool = False
    """It names a cause; what other nodes may tell would not change it."""
