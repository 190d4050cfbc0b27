"""
What a node remembers: its own drains (see `policy.History`), how often faults came back, what the
last visit saw, and how counters went.
"""

from typing import Any

import msgspec

from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.facts.trends import Trend
from slurm_resilience.node.findings import Finding
from slurm_resilience.node.policy.standing import History, Visited, joined
from slurm_resilience.node.policy.strikes import Strike
from slurm_resilience.node.state import kept, memo
from slurm_resilience.node.state.decoded import decoded

HISTORY = "history.json"
_STRIKES = "strikes.json"
_VISIT = "last-visit.json"
_TRENDS = "trends"


def load(plan: dict[str, Any]) -> History:
    """The history that was left; an empty one, of no boot, where there is none to believe."""
    return decoded(kept.read(f"{plan['state']}/{HISTORY}"), History) or History("")


def slow_findings(plan: dict[str, Any], boot: str) -> tuple[Finding, ...]:
    """What the last health check found that only it looks for, where it is of this *boot*."""
    found = decoded(memo.slow(plan, boot), tuple[Finding, ...]) or ()
    # Another version, before an update in the same boot, may have had other checks.
    return tuple(finding for finding in found if finding.check in CHECKS)


def save(plan: dict[str, Any], history: History, *, loaded: History) -> str:
    """
    Leave it for the next hook; why that could not be done, empty where it was.

    *loaded*: what there was when this hook began. Hooks of several jobs and the health check run
    at the same time: what another has left since is kept, too.
    """
    now = load(plan)
    if now not in {loaded, history} and now.boot == history.boot:
        history = joined(history, now)
    return kept.write(f"{plan['state']}/{HISTORY}", msgspec.json.encode(history))


def save_visit(plan: dict[str, Any], visited: Visited) -> str:
    """Leave it for `node explain`; why that could not be done, empty where it was."""
    return kept.write(f"{plan['state']}/{_VISIT}", msgspec.json.encode(visited))


def last_visit(state: str) -> Visited | None:
    """What the last visit saw; None where it cannot be read, for example by another user."""
    return decoded(kept.read(f"{state}/{_VISIT}"), Visited)


def strikes(state: str) -> tuple[tuple[Strike, ...], str]:
    """Earlier drains, and why they were not believed; empty where they were or none is left."""
    path = f"{state}/{_STRIKES}"
    raw = kept.read(path)
    found = decoded(raw, tuple[Strike, ...])
    if found is None and raw is not None:
        return (), f"{path}: torn, earlier drains are not counted"
    return found or (), ""


def save_strikes(plan: dict[str, Any], strikes: tuple[Strike, ...]) -> str:
    """Leave them for later boots; why that could not be done, empty where it was."""
    path = f"{plan['state']}/{_STRIKES}"
    return kept.write(path, msgspec.json.encode(strikes), lasting=True)


def trends(plan: dict[str, Any], boot: str) -> tuple[Trend, ...]:
    """What earlier health checks of this *boot* saw; nothing where there is none to believe."""
    return decoded(kept.of_boot(f"{plan['state']}/{_TRENDS}", boot), tuple[Trend, ...]) or ()


def save_trends(plan: dict[str, Any], boot: str, seen: tuple[Trend, ...]) -> str:
    """Leave them for the next health check; why that could not be done, empty where it was."""
    return kept.write_of_boot(f"{plan['state']}/{_TRENDS}", boot, msgspec.json.encode(seen))
