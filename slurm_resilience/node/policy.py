"""
Findings, and what Slurm says of the node -> drain it, give it back, or leave it. Pure.

Four things hold always: what somebody else wrote is never overwritten or lifted; where Slurm
did not answer nothing is changed; a finding that only says "could not see" never drains; and of
the nodes that share a partition no more than a set share is ever drained by us.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.findings import Finding, Severity, worst
from slurm_resilience.node.reason import Reason, is_ours, parse_reason, reason_of, short
from slurm_resilience.node.settings import Drains
from slurm_resilience.node.standing import (
    Decision,
    Drain,
    History,
    Hook,
    Keep,
    Resume,
    Standing,
)
from slurm_resilience.node.strikes import LOOP, Strike, Thing, advice, times


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
    drains: Drains = Drains()
    strikes: tuple[Strike, ...] = ()
    """Earlier drains that still count."""
    things: Mapping[str, Thing] = {}
    """Subject -> what outlasts a reboot of its names."""
    blind: frozenset[str] = frozenset()
    """Probes that gave no answer."""

    def thing(self, subject: str) -> Thing:
        """What a subject stands for."""
        return self.things.get(subject) or Thing(subject)


def is_unfit(findings: Sequence[Finding]) -> bool:
    """Whether new work may not start: a reset that waits for idle is due before the next job."""
    return worst(findings) >= Severity.DRAIN_WHEN_IDLE


def is_clean(findings: Sequence[Finding]) -> bool:
    """Whether everything was looked at and nothing speaks against new work."""
    unseen = any(finding.severity is Severity.UNKNOWN for finding in findings)
    return not unseen and not is_unfit(findings)


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

    Links, mounts and services come up one after the other: what heals by itself is not known
    before *grace_s*. What no waiting mends counts at once.
    """
    if up_s >= grace_s:
        return tuple(findings)
    return tuple(
        _unknown_yet(finding, up_s)
        if CHECKS[finding.check].heals == "itself" and is_unfit([finding])
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
    missing = _missing_for_resume(now, standing)
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
            history, struck=tuple(dict.fromkeys([*history.struck, _key(decision)]))
        )
    if not is_clean(now.findings):
        return msgspec.structs.replace(history, clean=0)
    clean = history.clean + 1 if now.hook == "health" else history.clean
    return msgspec.structs.replace(history, clean=clean)


def strike_of(now: Situation, decision: Decision, *, at: float) -> Strike | None:
    """The strike that a drain is, once for each cause while it stands."""
    if not isinstance(decision, Drain) or _key(decision) in now.history.struck:
        return None
    return Strike(decision.check, now.thing(decision.subject), at)


def _key(cause: Drain | Finding) -> str:
    return f"{cause.check} {cause.subject}"


# ── how many at once ────────────────────────────────────────────────────────────────────────


def most_drained(standing: Standing, drains: Drains) -> int:
    """How many neighbours we may hold drained; one at least, or a small partition had none."""
    return max(1, standing.neighbours * drains.most_percent // 100)


def is_over(node: str, standing: Standing, drains: Drains) -> bool:
    """
    Whether our drain of *node*, which stands, is one too many.

    Of several that drained at the same moment each asks this of itself. All see the same order,
    so they agree who goes back.
    """
    if drains.most_percent == 100 or node not in standing.ours:  # noqa: PLR2004 - no limit
        return False
    return standing.ours.index(node) >= most_drained(standing, drains)


def over_budget(node: str, standing: Standing, drains: Drains, wanted: str) -> Keep:
    """An unfit node that has to work on; *wanted*: the reason it would have."""
    others = len([name for name in standing.ours if name != node])
    return Keep(
        node,
        f"UNFIT, AND STILL IN USE: {others} of the {standing.neighbours} nodes in its partitions"
        f" are drained by slurm-resilience, node.drains.most_percent allows"
        f" {most_drained(standing, drains)}; look for one cause of all; it would be: {wanted}",
        tolerated=True,
    )


def _has_room(now: Situation, standing: Standing) -> bool:
    if standing.drained or now.drains.most_percent == 100:  # noqa: PLR2004 - no limit
        return True
    return len(standing.ours) < most_drained(standing, now.drains)


# ── what to do ──────────────────────────────────────────────────────────────────────────────


def _for_unfit(now: Situation, standing: Standing) -> Decision:
    first = max(now.findings, key=lambda finding: finding.severity)
    held = parse_reason(standing.reason) if standing.drained else None
    if held and (held.check, held.subject) == (first.check, first.subject):
        return Keep(now.node, "drained for it already")
    # At once, also where jobs run: to Slurm a drain ends nothing, and starts nothing.
    reason = reason_of(first, now.history.boot, _advice(now, first))
    if not _has_room(now, standing):
        return over_budget(now.node, standing, now.drains, reason)
    if now.observe:
        return Keep(now.node, f"observing only: would be drained: {reason}")
    return Drain(now.node, reason, first.check, first.subject)


def _advice(now: Situation, first: Finding) -> str:
    before = times(now.strikes, first.check, now.thing(first.subject))
    nth = before if _key(first) in now.history.struck else before + 1
    return advice(CHECKS[first.check].heals, nth, within_s=now.drains.repeats_s)


def _missing_for_resume(now: Situation, standing: Standing) -> str:
    held = parse_reason(standing.reason)
    thing = now.thing(held.subject) if held else Thing("")
    person = needs_a_person(held, now.strikes, thing)
    if person or held is None:
        return person
    if now.hook != "health":
        return "only the health check gives a node back"
    if not is_clean(now.findings) or CHECKS[held.check].probe in now.blind:
        return "not everything could be looked at"
    restarted = held.boot != short(now.history.boot) or now.driver_reloaded
    if CHECKS[held.check].probe == "kernel_log" and not restarted:
        # A kernel message goes from the ring buffer; the fault does not.
        return "neither the node nor its driver was restarted since"
    return _not_yet(now)


def _not_yet(now: Situation) -> str:
    passes = now.history.clean + 1
    if passes < now.resume_after:
        return f"clean {passes} of {now.resume_after} times"
    return "observing only: would be given back" if now.observe else ""


def needs_a_person(held: Reason | None, strikes: Sequence[Strike], thing: Thing) -> str:
    """Why no health check gives the node back; empty where one may."""
    if held is None or held.check not in CHECKS:
        return "drained for what no check here can clear: only a person gives it back"
    if CHECKS[held.check].heals == "repair":
        return "it needs a repair: only a person gives it back"
    if (count := times(strikes, held.check, thing)) >= LOOP:
        return f"drained for it {count} times: only a person gives it back"
    return ""
