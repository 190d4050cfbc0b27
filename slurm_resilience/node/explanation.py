"""Why a node takes no work: what, since when, by what evidence, whose, and what helps. Pure."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.policy.lifting import needs_a_person
from slurm_resilience.node.policy.reason import Reason, is_ours, parse_reason
from slurm_resilience.node.policy.standing import Visited
from slurm_resilience.node.policy.strikes import Strike, Thing
from slurm_resilience.slurm.values import Node

OF_OTHERS = {
    "Prolog error": "a prolog failed or outran its time; syslog and slurmd's log there say which",
    "Epilog error": "an epilog failed or outran its time; syslog and slurmd's log there say which",
    "Kill task failed": "a job's processes would not die; `slurm-resilience check` there looks for"
    " what is stuck",
    "gres/gpu count reported lower": "slurmd counted fewer GPUs than slurm.conf names, often only"
    " because it was up before the driver; where `slurm-resilience check` there says fit, resume it",
    "Not responding": "slurmd does not answer: the node, its network or slurmd is down",
    "Low ": "the node has less memory, processors or disk than slurm.conf says",
    "Reboot": "somebody asked Slurm to reboot it once it is idle",
    "NHC:": "Node Health Check drained it, and gives it back itself",
}
"""How a reason of Slurm's, or of another well-known tool, begins -> what it means."""


class Explanation(msgspec.Struct, frozen=True):
    """All that can be said of it here."""

    node: str
    state: str
    """`IDLE+DRAIN`."""
    drained: bool
    whose: Literal["ours", "theirs", "nobody"]
    """Who wrote the reason: this project, somebody else (or Slurm), or nobody."""
    reason: str
    since: float | None
    """Unix seconds at which the reason was written."""
    check: str = ""
    subject: str = ""
    meaning: str = ""
    advice: str = ""
    """What to do: reset, reboot, repair or replace, and the how manieth time it is."""
    person: str = ""
    """Why only a person gives it back; empty where the health check may."""
    evidence: tuple[Finding, ...] = ()
    """What a hook on the node found when it looked last; only the node itself knows."""
    seen_by: str = ""
    """The hook that looked."""
    seen_at: float | None = None


def explain(
    node: Node, visited: Visited | None = None, strikes: Sequence[Strike] = ()
) -> Explanation:
    """
    What there is to say of *node*.

    *visited*, *strikes*: what the node itself remembers, where this is that node.
    """
    held = parse_reason(node.reason)
    told = Explanation(
        node=node.name,
        state=shown(node),
        drained=node.is_drained,
        whose="ours" if is_ours(node.reason) else "theirs" if node.reason else "nobody",
        reason=node.reason,
        since=node.reason_at,
    )
    if held:
        told = _with_cause(told, held, strikes)
    elif told.whose == "ours":
        told = msgspec.structs.replace(told, person=needs_a_person(None, (), Thing("")))
    elif told.whose == "theirs":
        meanings = [
            text
            for start, text in OF_OTHERS.items()
            if node.reason.lower().startswith(start.lower())
        ]
        told = msgspec.structs.replace(told, meaning="".join(meanings[:1]))
    if visited is None or visited.node != node.name:
        return told
    return msgspec.structs.replace(
        told,
        evidence=tuple(one for one in visited.findings if one.severity > Severity.OK),
        seen_by=visited.hook,
        seen_at=visited.at,
    )


def shown(node: Node) -> str:
    """The state as scontrol writes it, flags in order of the alphabet."""
    return "+".join([node.state, *sorted(node.flags)])


def _with_cause(told: Explanation, held: Reason, strikes: Sequence[Strike]) -> Explanation:
    check = CHECKS.get(held.check)
    return msgspec.structs.replace(
        told,
        check=held.check,
        subject=held.subject,
        meaning=check.meaning if check else "a check of another version of slurm-resilience",
        advice=held.advice or (check.heals if check and check.heals != "itself" else ""),
        person=needs_a_person(held, strikes, Thing(held.subject)),
    )
