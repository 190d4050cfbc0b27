"""
One visit of a hook to its node, once the answers are in: facts and findings. `settling` goes on.

The part of a hook that takes its time: it runs where something is wrong, or for the first time.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from slurm_resilience.config import Config
from slurm_resilience.node import policy
from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.judging import judged
from slurm_resilience.node.leftovers import Ended, end_leftovers
from slurm_resilience.node.policy.standing import Hook, Visited
from slurm_resilience.node.probing import Answers
from slurm_resilience.node.scope import Scope
from slurm_resilience.node.settings import NodeSettings
from slurm_resilience.node.settling import Place, has_to_look, settle
from slurm_resilience.node.state import known_gpus, memo, recall, switches
from slurm_resilience.node.survey import facts_of
from slurm_resilience.node.voice import say


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
    """What could not be left for the next hook, `name: why`."""

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
    for told in _unkept(visit.unkept - {""}):
        say(f"{visit.hook}: {visit.plan['state']}: {told}", grave=True)
    return unfit


def _unkept(complaints: Iterable[str]) -> Iterable[str]:
    """By cause, which files could not be written; *complaints* are `name: why`."""
    names: dict[str, list[str]] = {}
    for complaint in sorted(complaints):
        name, _, why = complaint.partition(": ")
        names.setdefault(why, []).append(name)
    for why, of in names.items():
        so = ", so no drain will be lifted" if recall.HISTORY in of else ""
        yield f"{why}: cannot be kept: {', '.join(of)}{so}"


def _is_unfit(visit: Visit, answers: Answers) -> bool:
    facts = facts_of(visit.plan, visit.hook, visit.node, visit.boot, answers)
    everything = judged(visit.plan, visit.hook, facts, visit.settings)
    _keep(visit, facts, everything)
    loaded = recall.load(visit.plan)
    history = policy.settle(loaded, visit.boot, None)
    if visit.hook == "prolog" and _is_quiet(policy.unsettled(everything, history)):
        visit.unkept.add(memo.keep(visit.plan, visit.boot, answers))
    findings = in_scope(policy.without(everything, _switched_off(visit)), facts, visit.gpus)
    if visit.hook == "epilog":
        findings += _leftovers(visit, facts)
    findings = policy.unsettled(findings, history)
    for finding in findings:
        if finding.severity > Severity.OK:
            _tell(visit, finding)
    if visit.hook == "health" or not _is_quiet(findings):
        seen = Visited(visit.node, visit.boot, visit.hook, time.time(), findings)
        visit.unkept.add(recall.save_visit(visit.plan, seen))
    if not has_to_look(visit.hook, visit.boot, findings, loaded):
        return False
    place = Place(visit.hook, visit.node, visit.boot, visit.plan, visit.config, visit.until)
    unfit, unkept = settle(place, facts, findings, loaded)
    visit.unkept.update(unkept)
    return unfit


def _keep(visit: Visit, facts: NodeFacts, findings: tuple[Finding, ...]) -> None:
    """Leave for the next hooks what this one learnt."""
    if not visit.boot:
        return
    known = known_gpus.load(visit.plan, visit.boot)
    if (learnt := known_gpus.learnt(facts, known)) != known:
        visit.unkept.add(known_gpus.save(visit.plan, visit.boot, learnt))
    if visit.hook != "health":
        return
    visit.unkept.add(recall.save_trends(visit.plan, visit.boot, facts.trends))
    # Only what stops a job: a warning was said here, and would cost each prolog its fast path.
    slow = [
        one
        for one in findings
        if CHECKS[one.check].slow and one.severity >= Severity.DRAIN_WHEN_IDLE
    ]
    visit.unkept.add(memo.keep_slow(visit.plan, visit.boot, msgspec.json.encode(slow)))


def in_scope(findings: Iterable[Finding], facts: NodeFacts, gpus: Scope) -> tuple[Finding, ...]:
    """The findings that concern the node as a whole or one of *gpus*."""
    held, _ = gpus.among(facts.gpus or ())
    return tuple(
        finding
        for finding in findings
        if (finding.gpu in held if finding.gpu is not None else True)
        and (gpus or not CHECKS[finding.check].of_gpus)
    )


def _switched_off(visit: Visit) -> tuple[str, ...]:
    """The checks that somebody switched off here, and a word of it."""
    off = switches.files_off(visit.plan["state"])
    for name in off:
        known = "" if name in CHECKS else ", which is no check"
        say(f"{visit.hook}: switched off on this node: {name}{known}", grave=bool(known))
    return off


def _is_quiet(findings: Iterable[Finding]) -> bool:
    return all(finding.severity is Severity.OK for finding in findings)


def _leftovers(visit: Visit, facts: NodeFacts) -> tuple[Finding, ...]:
    job = visit.environment.get("SLURM_JOB_ID", "")
    user = visit.environment.get("SLURM_JOB_UID", "")
    if not (job and user.isdecimal()):
        return ()
    ended = Ended(job, int(user), visit.plan["proc"])
    return end_leftovers(facts, visit.gpus, ended, observe=visit.settings.mode == "observe")


def _tell(visit: Visit, finding: Finding) -> None:
    say(
        f"{visit.hook}: {finding.severity.value}: {finding.told}",
        grave=finding.severity >= Severity.DRAIN_WHEN_IDLE,
    )
