"""
Findings, and what Slurm says of the node -> drain it, give it back, or leave it. Pure.

Four things hold always: what somebody else wrote is never overwritten or lifted; where Slurm
did not answer nothing is changed; a finding that only says "could not see" never drains; and of
the nodes that share a partition no more than a set share is ever drained by us.
"""

from collections.abc import Collection, Sequence

import msgspec

from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.checks.check import Heals
from slurm_resilience.node.findings import Finding, Severity, is_unfit
from slurm_resilience.node.policy.budget import has_room, is_over, over_budget
from slurm_resilience.node.policy.lifting import is_cleared, missing_for_resume
from slurm_resilience.node.policy.reason import (
    Reason,
    is_ours,
    parse_reason,
    reason_of,
    written,
)
from slurm_resilience.node.policy.standing import (
    Decision,
    Drain,
    History,
    Keep,
    Resume,
    Situation,
    Standing,
)
from slurm_resilience.node.policy.strikes import Strike, advice, times


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


def after_boot(
    findings: Sequence[Finding], *, up_s: float, grace_s: float
) -> tuple[Finding, ...]:
    """
    Findings as they count *up_s* seconds after boot.

    The driver, links, mounts and services come up one after the other: what is not there is not
    missed before *grace_s*. What no waiting mends counts at once.
    """
    if up_s >= grace_s:
        return tuple(findings)
    return tuple(
        _unknown_yet(finding, up_s)
        if CHECKS[finding.check].comes_up and is_unfit([finding])
        else finding
        for finding in findings
    )


def _unknown_yet(finding: Finding, up_s: float) -> Finding:
    detail = f"{finding.detail} (only {up_s:.0f} s after boot, it may still come)"
    return msgspec.structs.replace(finding, severity=Severity.UNKNOWN, detail=detail)


def without(findings: Sequence[Finding], off: Collection[str]) -> tuple[Finding, ...]:
    """Findings without those of checks that are switched off."""
    return tuple(finding for finding in findings if finding.check not in off)


def decide_node(now: Situation) -> Decision:
    """What is to be done with a node."""
    standing = now.standing
    if standing is None:
        return Keep(now.node, "Slurm did not say how the node stands", undecided=True)
    if theirs := _somebody_elses(standing):
        return Keep(now.node, theirs)
    if is_unfit(now.findings):
        return _for_unfit(now, standing)
    if not standing.drained:
        return Keep(now.node, "fit")
    missing = missing_for_resume(now, standing)
    return Keep(now.node, missing) if missing else Resume(now.node, standing.reason)


def _somebody_elses(standing: Standing) -> str:
    """Whose the node is at the moment; empty where it is ours to change."""
    if standing.reason and not is_ours(standing.reason):
        return f"somebody else set its reason: {standing.reason}"
    if standing.drained and not standing.reason:
        return "somebody else drained it, without a reason"
    return "Slurm is restarting it" if standing.restarting else ""


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
    history = msgspec.structs.replace(history, drained_at=newest)
    if isinstance(decision, Drain):
        history = msgspec.structs.replace(
            history,
            written_at=newest,
            struck=tuple(dict.fromkeys([*history.struck, _key(decision)])),
        )
    if not is_cleared(now, now.standing):
        return msgspec.structs.replace(history, clean=0)
    clean = history.clean + 1 if now.hook == "health" else history.clean
    return msgspec.structs.replace(history, clean=clean)


def strike_of(now: Situation, decision: Decision, *, at: float) -> Strike | None:
    """
    The strike that a drain is, once for each cause while it stands.

    A disk that fills up again, a link that goes down again: no new part helps against those.
    """
    if not isinstance(decision, Drain) or _key(decision) in now.history.struck:
        return None
    if CHECKS[decision.check].heals == "itself":
        return None
    return Strike(decision.check, now.thing(decision.subject), at)


def _key(cause: Drain | Finding) -> str:
    return f"{cause.check} {cause.subject}"


def _for_unfit(now: Situation, standing: Standing) -> Decision:
    first = max(now.findings, key=lambda finding: finding.severity)
    held = parse_reason(standing.reason) if standing.drained else None
    if held and _is_told(held, first):
        if is_over(now.node, standing, now.settings.drains):
            # Another hook is just taking it back: no status of ours may drain the node after that.
            return over_budget(now.node, standing, now.settings.drains, standing.reason)
        return Keep(now.node, "drained for it already")
    # At once, also where jobs run: to Slurm a drain ends nothing, and starts nothing.
    reason = reason_of(first, now.history.boot, _advice(now, first))
    if not has_room(now, standing):
        return over_budget(now.node, standing, now.settings.drains, reason)
    if now.observe:
        return Keep(now.node, f"observing only: would be drained: {reason}")
    return Drain(now.node, reason, first.check, first.subject)


def _is_told(held: Reason, first: Finding) -> bool:
    """Whether the reason that stands says it, and advises nothing less than it takes."""
    is_same = (held.check, held.subject) == (first.check, written(first.subject))
    return is_same and first.healed_by not in _GRAVER.get(held.advice, ())


_GRAVER: dict[str, tuple[Heals, ...]] = {"reset": ("reboot", "repair"), "reboot": ("repair",)}


def _advice(now: Situation, first: Finding) -> str:
    before = times(now.strikes, first.check, now.thing(first.subject))
    nth = before if _key(first) in now.history.struck else before + 1
    return advice(first.healed_by, nth, within_s=now.settings.drains.repeats_s)
