"""Facts, and what earlier hooks left -> findings: as the hooks count them, and `check` with them."""

from typing import Any

from slurm_resilience.node import policy
from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding
from slurm_resilience.node.rules import as_set, judge
from slurm_resilience.node.settings import NodeSettings
from slurm_resilience.node.state import recall
from slurm_resilience.node.survey import WHOLE

ON_REQUEST = frozenset(name for name, check in CHECKS.items() if check.on_request)


def judged(
    plan: dict[str, Any], profile: str, facts: NodeFacts, settings: NodeSettings
) -> tuple[Finding, ...]:
    """
    Every finding, worst first, before anything that is switched off or settled is left out.

    What only health checks look for is taken from the last of them: in the prolog all of it, as
    the settings are now; in a health check that of which the probe gives no answer this time.
    """
    found = judge(facts, settings)
    if profile != "full":
        found = policy.without(found, ON_REQUEST)
    found = policy.after_boot(found, up_s=facts.up_s, grace_s=settings.grace_s)
    if profile == "epilog":
        return found
    earlier = recall.slow_findings(plan, facts.boot_id)
    if profile in WHOLE:
        earlier = tuple(one for one in earlier if CHECKS[one.check].probe in facts.silent)
    both = dict.fromkeys((*found, *as_set(earlier, settings)))
    return tuple(sorted(both, key=lambda finding: finding.severity, reverse=True))
