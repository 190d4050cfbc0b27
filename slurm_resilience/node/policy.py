"""
Findings, and what Slurm says of the node -> drain it, give it back, or leave it. Pure.

Three things hold always: what somebody else wrote is never overwritten or lifted; where Slurm
did not answer nothing is changed; a finding that only says "could not see" never drains.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.findings import Finding, Severity, worst
from slurm_resilience.node.reason import is_ours, parse_reason, reason_of, short

Hook = Literal["prolog", "epilog", "health"]


class Standing(msgspec.Struct, frozen=True):
    """How the node stands with Slurm."""

    drained: bool
    busy: bool
    """Jobs run on it."""
    reason: str = ""


class History(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node remembers of earlier hooks of the same boot."""

    boot: str
    clean: int = 0
    """Health checks in a row that found nothing to drain for, since our drain."""
    drained_at: int | None = None
    """The newest kernel record known when we drained; None: no drain of ours stands."""
    settled: int = -1
    """Kernel records up to this one no longer count: a drain for them was lifted."""


class Drain(msgspec.Struct, frozen=True):
    """Let what runs end, and start nothing new."""

    node: str
    reason: str


class Resume(msgspec.Struct, frozen=True):
    """Give a node back that we had drained with this *reason*."""

    node: str
    reason: str


class Keep(msgspec.Struct, frozen=True):
    """Leave the node as it is."""

    node: str
    because: str
    undecided: bool = False
    """Slurm did not say how it stands."""


Decision = Drain | Resume | Keep


class Situation(msgspec.Struct, frozen=True):
    """All that a decision is made from."""

    node: str
    hook: Hook
    findings: tuple[Finding, ...]
    standing: Standing | None
    """None: Slurm did not say."""
    history: History
    observe: bool = False
    resume_after: int = 3
    driver_reloaded: bool = False
    """The NVIDIA driver was loaded again after our last drain."""


def is_unfit(findings: Sequence[Finding]) -> bool:
    """Whether new work may not start: a reset that waits for idle is due before the next job."""
    return worst(findings) >= Severity.DRAIN_WHEN_IDLE


def settle(history: History, boot: str, standing: Standing | None) -> History:
    """
    The history that counts now.

    It begins anew with each boot. And where a drain of ours stands no longer though we did not
    lift it, an administrator did: who has looked at the node does not want it drained again for
    the same kernel messages.
    """
    if history.boot != boot:
        return History(boot)
    if history.drained_at is not None and standing is not None and not standing.drained:
        return History(boot, settled=max(history.settled, history.drained_at))
    return history


def unsettled(findings: Sequence[Finding], history: History) -> tuple[Finding, ...]:
    """Findings without those whose kernel messages are settled."""
    return tuple(
        finding
        for finding in findings
        if finding.sequence is None or finding.sequence > history.settled
    )


def decide_node(now: Situation) -> Decision:
    """What is to be done with a node."""
    standing = now.standing
    if standing is None:
        return Keep(now.node, "Slurm did not say how the node stands", undecided=True)
    if standing.reason and not is_ours(standing.reason):
        return Keep(now.node, f"somebody else set its reason: {standing.reason}")
    if standing.drained and not standing.reason:
        return Keep(now.node, "somebody else drained it, without a reason")
    if is_unfit(now.findings):
        return _for_unfit(now, standing)
    if not standing.drained:
        return Keep(now.node, "fit")
    missing = _missing_for_resume(now, standing)
    return Keep(now.node, missing) if missing else Resume(now.node, standing.reason)


def remember(now: Situation, decision: Decision, *, newest: int) -> History:
    """
    The history after *decision* was carried out.

    *newest*: the last kernel record known, -1 for none.
    """
    history = now.history
    if isinstance(decision, Resume):
        return History(history.boot, settled=max(history.settled, newest))
    stood = now.standing is not None and now.standing.drained and is_ours(now.standing.reason)
    if not (stood or isinstance(decision, Drain)):
        return history
    if not is_clean(now.findings):
        return msgspec.structs.replace(history, clean=0, drained_at=newest)
    clean = history.clean + 1 if now.hook == "health" else history.clean
    return msgspec.structs.replace(history, clean=clean, drained_at=newest)


def is_clean(findings: Sequence[Finding]) -> bool:
    """Whether everything was looked at and nothing speaks against new work."""
    unseen = any(finding.severity is Severity.UNKNOWN for finding in findings)
    return not unseen and not is_unfit(findings)


def _for_unfit(now: Situation, standing: Standing) -> Decision:
    first = max(now.findings, key=lambda finding: finding.severity)
    if now.hook == "health" and standing.busy and first.severity is Severity.DRAIN_WHEN_IDLE:
        return Keep(now.node, f"waits until it is idle: {first.check} {first.subject}")
    reason = reason_of(first, now.history.boot)
    held = parse_reason(standing.reason) if standing.drained else None
    if held and (held.check, held.subject) == (first.check, first.subject):
        return Keep(now.node, "drained for it already")
    if now.observe:
        return Keep(now.node, f"observing only: would be drained: {reason}")
    return Drain(now.node, reason)


def _missing_for_resume(now: Situation, standing: Standing) -> str:
    held = parse_reason(standing.reason)
    if held is None or held.check not in CHECKS:
        return "drained for what no check here can clear"
    if now.hook != "health":
        return "only the health check gives a node back"
    if not is_clean(now.findings):
        return "not everything could be looked at"
    restarted = held.boot != short(now.history.boot) or now.driver_reloaded
    if CHECKS[held.check].probe == "kernel_log" and not restarted:
        # A kernel message goes from the ring buffer; the fault does not.
        return "neither the node nor its driver was restarted since"
    times = now.history.clean + 1
    if times < now.resume_after:
        return f"clean {times} of {now.resume_after} times"
    return "observing only: would be given back" if now.observe else ""
