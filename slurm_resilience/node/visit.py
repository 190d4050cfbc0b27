"""
One visit of a hook to its node, once the answers are in: facts, findings, decision, action.

The part of a hook that takes its time: it runs where something is wrong, or for the first time.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from slurm_resilience.config import Config
from slurm_resilience.errors import ResilienceError
from slurm_resilience.node import act, memo, policy, recall
from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.facts import NodeFacts, assemble
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.leftovers import Ended, end_leftovers
from slurm_resilience.node.policy import Decision, History, Hook, Keep, Standing
from slurm_resilience.node.probing import Answers
from slurm_resilience.node.rules import judge
from slurm_resilience.node.scope import Scope
from slurm_resilience.node.settings import NodeSettings
from slurm_resilience.node.survey import identity_of, with_trends
from slurm_resilience.node.voice import say
from slurm_resilience.slurm.door import Slurm


class Visit(msgspec.Struct, frozen=True):
    """What does not change during one run of a hook."""

    hook: Hook
    node: str
    boot: str
    gpus: Scope
    plan: dict[str, Any]
    config: Config
    environment: Mapping[str, str]
    until: float
    """CLOCK_MONOTONIC seconds at which the hook should have ended."""
    unkept: set[str] = msgspec.field(default_factory=set)
    """Why something could not be left for the next hook."""

    @property
    def settings(self) -> NodeSettings:
        """How the node is judged; a job with GPUs expects one at least."""
        settings = self.config.node
        if self.hook == "health" or not self.gpus or settings.expect.gpus is not None:
            return settings
        expect = msgspec.structs.replace(settings.expect, gpus=1)
        return msgspec.structs.replace(settings, expect=expect)


def conclude(visit: Visit, answers: Answers) -> bool:
    """Judge, decide, act; whether the job must not start, or the node be drained by Slurm."""
    unfit = _is_unfit(visit, answers)
    if why := "; ".join(visit.unkept - {""}):
        say(
            f"{visit.hook}: {visit.plan['state']}: {why}: counters and clean passes cannot be kept,"
            " so no drain will be lifted",
            grave=True,
        )
    return unfit


def _is_unfit(visit: Visit, answers: Answers) -> bool:
    values, unread = answers.read()
    identity = identity_of(visit.boot, visit.node)
    facts = assemble(identity, values, unread, answers.hung)
    if visit.hook == "health":
        facts = with_trends(visit.plan, facts)
        visit.unkept.add(recall.save_trends(visit.plan, visit.boot, facts.trends))
    history = recall.load(visit.plan)
    everything = _findings(visit, facts)
    if visit.hook == "prolog" and _is_quiet(policy.unsettled(everything, history)):
        visit.unkept.add(memo.keep(visit.plan, visit.boot, answers))
    findings = in_scope(everything, facts, visit.gpus)
    if visit.hook == "epilog":
        findings += _leftovers(visit, facts)
    for finding in findings:
        if finding.severity > Severity.OK:
            _tell(visit, finding)
    if not _has_to_look(visit, policy.unsettled(findings, history), history):
        return False
    return _settle(visit, facts, findings, history)


def in_scope(findings: Iterable[Finding], facts: NodeFacts, gpus: Scope) -> tuple[Finding, ...]:
    """The findings that concern the node as a whole or one of *gpus*."""
    held = {gpu.index for gpu in facts.gpus or () if gpus.holds(gpu)}
    return tuple(
        finding
        for finding in findings
        if (finding.gpu in held if finding.gpu is not None else True)
        and (gpus or not CHECKS[finding.check].of_gpus)
    )


def _findings(visit: Visit, facts: NodeFacts) -> tuple[Finding, ...]:
    findings = judge(facts, visit.settings)
    if visit.hook == "health":
        slow = [
            one for one in findings if CHECKS[one.check].slow and one.severity > Severity.OK
        ]
        visit.unkept.add(memo.keep_slow(visit.plan, visit.boot, msgspec.json.encode(slow)))
    elif visit.hook == "prolog":
        findings += recall.slow_findings(visit.plan, visit.boot)
    return findings


def _is_quiet(findings: Iterable[Finding]) -> bool:
    return all(finding.severity is Severity.OK for finding in findings)


def _leftovers(visit: Visit, facts: NodeFacts) -> tuple[Finding, ...]:
    job = visit.environment.get("SLURM_JOB_ID", "")
    user = visit.environment.get("SLURM_JOB_UID", "")
    if not (job and user.isdecimal()):
        return ()
    ended = Ended(job, int(user), visit.plan["proc"])
    return end_leftovers(facts, visit.gpus, ended, observe=visit.settings.mode == "observe")


# ── Slurm ───────────────────────────────────────────────────────────────────────────────────


def _has_to_look(visit: Visit, findings: tuple[Finding, ...], history: History) -> bool:
    """Slurm is asked only where something may change: hooks run everywhere at once."""
    if policy.is_unfit(findings):
        return True
    first_of_boot = history.boot != visit.boot
    return visit.hook == "health" and (first_of_boot or history.drained_at is not None)


def _settle(
    visit: Visit, facts: NodeFacts, findings: tuple[Finding, ...], history: History
) -> bool:
    slurm = _connect(visit)
    standing = _look(visit, slurm)
    events = facts.kernel_events or ()
    newest = max((event.sequence for event in events), default=-1)
    reloaded = any(
        event.kind == "driver-loaded" and event.sequence > (history.drained_at or -1)
        for event in events
    )
    history = policy.settle(history, visit.boot, standing)
    now = policy.Situation(
        visit.node, visit.hook, policy.unsettled(findings, history), standing, history,
        observe=visit.settings.mode == "observe", resume_after=visit.settings.resume_after,
        driver_reloaded=reloaded,
    )  # fmt: skip
    decision = _carry_out(visit, policy.decide_node(now), slurm)
    history = policy.remember(now, decision, newest=newest)
    visit.unkept.add(recall.save(visit.plan, history))
    if now.observe or not policy.is_unfit(now.findings):
        return False
    # The prolog must stop the job. The epilog's status drains a node, so it is left for where
    # our own drain could not be written.
    undecided = isinstance(decision, Keep) and decision.undecided
    return visit.hook == "prolog" or (visit.hook == "epilog" and undecided)


def _connect(visit: Visit) -> Slurm:
    from slurm_resilience.slurm.connect import connect  # noqa: PLC0415 - most visits need none

    patience = min(visit.settings.budgets.slurm_s, max(1.0, visit.until - time.monotonic()))
    return connect(visit.config.slurm, timeout_s=patience)


def _look(visit: Visit, slurm: Slurm) -> Standing | None:
    try:
        return act.look(slurm, visit.node)
    except ResilienceError as error:
        say(f"{visit.hook}: {visit.node}: {error}", grave=True)
        return None


def _carry_out(visit: Visit, decision: Decision, slurm: Slurm) -> Decision:
    """Act; the decision that was carried out in the end."""
    match decision:
        case Keep(_, because):
            say(f"{visit.hook}: {visit.node} left as it is: {because}")
            return decision
        case _:
            pass
    try:
        changed = act.apply(decision, slurm)
    except ResilienceError as error:
        say(f"{visit.hook}: {visit.node} not changed: {error}", grave=True)
        return Keep(visit.node, str(error), undecided=True)
    if not changed:
        return Keep(visit.node, "it stands otherwise by now")
    what = "drained" if isinstance(decision, policy.Drain) else "given back, it was drained for"
    say(f"{visit.hook}: {visit.node} {what}: {decision.reason}", grave=True)
    return decision


def _tell(visit: Visit, finding: Finding) -> None:
    say(
        f"{visit.hook}: {finding.severity.value}: {finding.check} {finding.subject}: "
        f"{finding.detail}",
        grave=finding.severity >= Severity.DRAIN_WHEN_IDLE,
    )
