"""What a node remembers of its own drains: see `policy.History`."""

from typing import Any

import msgspec

from slurm_resilience.node import kept, memo
from slurm_resilience.node.findings import Finding
from slurm_resilience.node.policy import History

_NAME = "history.json"


def load(plan: dict[str, Any]) -> History:
    """The history that was left; an empty one, of no boot, where there is none to believe."""
    raw = kept.read(f"{plan['state']}/{_NAME}")
    if raw is None:
        return History("")
    try:
        return msgspec.json.decode(raw, type=History)
    except msgspec.MsgspecError:
        return History("")


def slow_findings(plan: dict[str, Any], boot: str) -> tuple[Finding, ...]:
    """What the last health check found that only it looks for, where it is of this *boot*."""
    return msgspec.json.decode(memo.slow(plan, boot), type=tuple[Finding, ...])


def save(plan: dict[str, Any], history: History) -> str:
    """Leave it for the next hook; why that could not be done, empty where it was."""
    return kept.write(f"{plan['state']}/{_NAME}", msgspec.json.encode(history))
