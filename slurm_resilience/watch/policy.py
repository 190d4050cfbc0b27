"""Findings -> go on, pass Slurm's notice on, or end the attempt; and whom to accuse."""

from collections.abc import Sequence

import msgspec

from slurm_resilience.incident import SILENT, Class, Retry, Suspect
from slurm_resilience.watch.facts import Notice
from slurm_resilience.watch.rules import Finding


class GoOn(msgspec.Struct, frozen=True):
    """Nothing to do."""


class Stop(msgspec.Struct, frozen=True):
    """Ask the ranks to save and stop."""

    notice: Notice


class End(msgspec.Struct, frozen=True):
    """The attempt cannot go on."""

    cause: Finding


class Finish(msgspec.Struct, frozen=True):
    """The work is whole; only the processes are left to end."""

    because: Finding


Decision = GoOn | Stop | End | Finish


def decide(findings: Sequence[Finding], notice: Notice | None) -> Decision:
    """The first finding decides: `rules.judge` puts the most telling first."""
    if findings:
        first = findings[0]
        return Finish(first) if first.id == "not-finishing" else End(first)
    return Stop(notice) if notice else GoOn()


class Blame(msgspec.Struct, frozen=True):
    """Whom an ended attempt accuses, and what to do about it."""

    cause: str
    class_: Class
    retry: Retry
    suspects: tuple[Suspect, ...]
    evidence: tuple[str, ...]
    """Details of all findings, the deciding ones first."""


STRENGTH: tuple[tuple[str, Class], ...] = (
    ("agent-lost", "unknown"),
    (SILENT, "hardware"),
    ("agent-missing", "hardware"),
    ("gpu-lost", "hardware"),
    ("ecc-uncorrected", "hardware"),
    ("kernel-event", "hardware"),
    ("driver-mute", "hardware"),
    ("link-down", "network"),
    ("rank-stopped", "software"),
    ("rank-uninterruptible", "storage"),
    ("rank-missing", "unknown"),
    ("rank-lagging", "unknown"),
    ("rank-mute", "unknown"),
    ("rank-odd-phase", "unknown"),
    ("rank-odd-stack", "unknown"),
)
"""Evidence by strength, with the class of fault it stands for. A silent node outranks what it
said last; what the hardware says outranks what a rank seems to do."""

HARD = frozenset({
    "gpu-lost", "ecc-uncorrected", "kernel-event", "driver-mute", "link-down", "rank-stopped",
})  # fmt: skip
"""Evidence that holds after a crash too, when the steps and phases of dying ranks say nothing."""


def accuse(findings: Sequence[Finding], nodes: int) -> Blame:
    """
    Suspects by the strongest evidence that points at some of the job's *nodes*, not at all.

    What all nodes of a job share is no fault of a node (a hung file system, a slow start): it
    names the cause and accuses nobody. Without evidence the same nodes are tried again.
    """
    common: tuple[str, Class] | None = None
    for identity, class_ in STRENGTH:
        against = [finding for finding in findings if finding.id == identity]
        accused = {finding.node: finding for finding in reversed(against) if finding.node}
        if not accused:
            continue
        if len(accused) == nodes > 1:
            common = common or (identity, class_)
            continue
        suspects = tuple(
            Suspect(node, why=finding.detail, rank=finding.rank)
            for node, finding in sorted(accused.items())
        )
        rest = [finding for finding in findings if finding.id != identity]
        details = tuple(finding.detail for finding in [*against, *rest])
        return Blame(identity, class_, "exclude-node", suspects, details)
    cause, class_ = common or ("no-progress", "unknown")
    return Blame(cause, class_, "same-nodes", (), tuple(finding.detail for finding in findings))
