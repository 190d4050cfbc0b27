"""Why an attempt ended, as judged from what it left: frozen values."""

from typing import Literal

import msgspec

from slurm_resilience.incident import Class, Retry, Suspect

Advised = Retry | Literal["ask-slurm"]
"""`ask-slurm`: the text cannot tell a preemption from a cancel; Slurm's own record can."""
Confidence = Literal["high", "medium", "low"]


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


class Accused(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whom the text accuses."""

    why: str
    rank: int | None = None
    """Global."""
    node: str | None = None
    local_rank: int | None = None


class Evidence(msgspec.Struct, frozen=True):
    """A deciding line."""

    file: str
    line: int | None
    text: str


class Diagnosis(msgspec.Struct, frozen=True):
    """Why an attempt ended."""

    class_: Class = msgspec.field(name="class")
    cause: str = "unknown"
    """Id of the rule that decided; `diagnose --explain` says more."""
    retry: Advised = "same-nodes"
    suspects: tuple[Accused, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """The deciding line first."""
    advice: str = ""
    confidence: Confidence = "low"
