"""What a visit changes in Slurm: how the node stands, the decision, the action, and its memory."""

import time
from collections.abc import Iterable
from typing import Any

import msgspec

from slurm_resilience.config import Config
from slurm_resilience.errors import ResilienceError
from slurm_resilience.node import act, policy
from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, is_unfit
from slurm_resilience.node.policy import budget, strikes
from slurm_resilience.node.policy.lifting import is_restarted
from slurm_resilience.node.policy.reason import parse_reason
from slurm_resilience.node.policy.standing import (
    Decision,
    Drain,
    History,
    Hook,
    Keep,
    Resume,
    Situation,
    Standing,
)
from slurm_resilience.node.policy.strikes import Strike
from slurm_resilience.node.state import recall
from slurm_resilience.node.voice import say
from slurm_resilience.slurm.door import Slurm

NEXT_SECOND_S = 1.05
"""After it, every drain that Slurm stamped with our own second is to be seen."""
_LEAST_S = 0.5


class Place(msgspec.Struct, frozen=True):
    """Where and when: what a visit has for this."""

    hook: Hook
    node: str
    boot: str
    plan: dict[str, Any]
    config: Config
    until: float
    """CLOCK_MONOTONIC seconds at which the hook should have ended."""


def has_to_look(hook: Hook, boot: str, findings: tuple[Finding, ...], history: History) -> bool:
    """Slurm is asked only where something may change: hooks run everywhere at once."""
    if is_unfit(findings):
        return True
    return hook == "health" and (history.boot != boot or history.drained_at is not None)


def settle(
    place: Place, facts: NodeFacts, findings: tuple[Finding, ...], history: History
) -> tuple[bool, Iterable[str]]:
    """Whether the job must not start, or Slurm drain the node; and why something was not kept."""
    settings = place.config.node
    answer_by = time.monotonic() + settings.budgets.slurm_s
    standing = _look(place, answer_by)
    events = facts.kernel_events or ()
    newest = max((event.sequence for event in events), default=-1)
    loaded, history = history, policy.settle(history, place.boot, standing)
    counting = policy.unsettled(findings, history)
    for one in findings:
        if one not in counting:
            say(f"{place.hook}: settled, as the node was given back by hand: {one.told}")
    now = Situation(
        place.node, place.hook, counting, standing, history,
        settings=settings, restarted=_is_restarted(facts, standing, history),
        strikes=_strikes(place), things=strikes.things_of(facts), blind=facts.silent,
        sees_gpu=bool(facts.gpus) or settings.expect.gpus == 0,
    )  # fmt: skip
    decision = _carry_out(place, now, policy.decide_node(now), answer_by)
    unkept = {
        recall.save(place.plan, policy.remember(now, decision, newest=newest), loaded=loaded)
    }
    if strike := policy.strike_of(now, decision, at=time.time()):
        unkept.add(_remember_strike(place, now.strikes, strike))
    return _is_refused(now, decision), unkept


def _is_refused(now: Situation, decision: Decision) -> bool:
    if now.observe or not is_unfit(now.findings):
        return False
    if isinstance(decision, Keep) and decision.tolerated:
        return False
    # The prolog must stop the job. The epilog's status drains a node, so it is left for where
    # our own drain could not be written.
    undecided = isinstance(decision, Keep) and decision.undecided
    return now.hook == "prolog" or (now.hook == "epilog" and undecided)


def _is_restarted(facts: NodeFacts, standing: Standing | None, history: History) -> bool:
    held = parse_reason(standing.reason) if standing else None
    if held is None:
        return False
    thing = strikes.things_of(facts).get(held.subject) or strikes.Thing(held.subject)
    return is_restarted(facts.kernel_events or (), thing, after=history.written_at)


def _strikes(place: Place) -> tuple[Strike, ...]:
    found, complaint = recall.strikes(place.plan["state"])
    if complaint:
        say(f"{place.hook}: {complaint}", grave=True)
    within_s = place.config.node.drains.repeats_s
    return strikes.recent(found, now=time.time(), within_s=within_s)


def _remember_strike(place: Place, earlier: tuple[Strike, ...], strike: Strike) -> str:
    return recall.save_strikes(place.plan, (*earlier, strike)[-strikes.MOST :])


# ── Slurm ───────────────────────────────────────────────────────────────────────────────────


def _connect(place: Place, answer_by: float) -> Slurm:
    from slurm_resilience.slurm.connect import connect  # noqa: PLC0415 - most visits need none

    patience_s = max(_LEAST_S, min(answer_by, place.until) - time.monotonic())
    return connect(place.config.slurm, timeout_s=patience_s)


def _look(place: Place, answer_by: float) -> Standing | None:
    try:
        return act.look(_connect(place, answer_by), place.node)
    except ResilienceError as error:
        say(f"{place.hook}: {place.node}: {error}", grave=True)
        return None


def _carry_out(place: Place, now: Situation, decision: Decision, answer_by: float) -> Decision:
    """Act; the decision that was carried out in the end."""
    if isinstance(decision, Keep):
        say(
            f"{place.hook}: {place.node} left as it is: {decision.because}",
            grave=decision.tolerated,
        )
        return decision
    try:
        changed = act.apply(decision, _connect(place, answer_by))
    except ResilienceError as error:
        say(f"{place.hook}: {place.node} not changed: {error}", grave=True)
        return Keep(place.node, str(error), undecided=True)
    if not changed:
        return Keep(place.node, "it stands otherwise by now")
    if isinstance(decision, Drain) and (kept := _taken_back(place, now, decision)):
        say(f"{place.hook}: {place.node} given back: {kept.because}", grave=True)
        return kept
    what = "drained" if isinstance(decision, Drain) else "given back, it was drained for"
    say(f"{place.hook}: {place.node} {what}: {decision.reason}", grave=True)
    return decision


def _taken_back(place: Place, now: Situation, drain: Drain) -> Keep | None:
    """
    A drain that turned out to be one too many, lifted again; None where it stands.

    Where a fault is everywhere at once, all nodes look, see room and drain within the same second.
    """
    drains = now.settings.drains
    if not budget.is_limited(drains) or (now.standing and now.standing.drained):
        return None
    time.sleep(NEXT_SECOND_S)
    answer_by = time.monotonic() + place.config.node.budgets.slurm_s
    standing = _look(place, answer_by)
    if standing is None or not budget.is_over(place.node, standing, drains):
        return None
    try:
        back = act.apply(Resume(place.node, drain.reason), _connect(place, answer_by))
    except ResilienceError as error:
        say(f"{place.hook}: {place.node} stays drained: {error}", grave=True)
        return None
    return budget.over_budget(place.node, standing, drains, drain.reason) if back else None
