"""What a node remembers: its own drains (see `policy.History`), and how counters went."""

from typing import Any

import msgspec

from slurm_resilience.node import kept, memo
from slurm_resilience.node.facts.trends import Trend
from slurm_resilience.node.findings import Finding
from slurm_resilience.node.policy import History

_NAME = "history.json"
_TRENDS = "trends.json"


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


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Trends, and the boot in which they were read."""

    boot: str
    trends: tuple[Trend, ...]


def trends(plan: dict[str, Any], boot: str) -> tuple[Trend, ...]:
    """What earlier health checks of this *boot* saw; nothing where there is none to believe."""
    raw = kept.read(f"{plan['state']}/{_TRENDS}")
    try:
        found = msgspec.json.decode(raw, type=_Kept) if raw else None
    except msgspec.MsgspecError:
        return ()
    return found.trends if found and found.boot == boot else ()


def save_trends(plan: dict[str, Any], boot: str, seen: tuple[Trend, ...]) -> str:
    """Leave them for the next health check; why that could not be done, empty where it was."""
    return kept.write(f"{plan['state']}/{_TRENDS}", msgspec.json.encode(_Kept(boot, seen)))
