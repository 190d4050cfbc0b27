"""Rules over network links. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings


def link_down(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Expected links only: most adapters have ports that nobody uses."""
    for link in facts.links or ():
        if link.name not in settings.expect.links:
            continue
        if not link.present:
            yield Finding("link-down", Severity.DRAIN, link.name, "no such device")
        elif link.state in {"INIT", "ARMED"} and link.physical_state == "LinkUp":
            # The cable is fine: the fabric's subnet manager has not come by.
            detail = f"{link.state}: waits for the subnet manager"
            yield Finding("link-down", Severity.WARN, link.name, detail)
        elif link.state is not None and link.state not in {"ACTIVE", "UP"}:
            detail = (
                f"{link.state} ({link.physical_state})" if link.physical_state else link.state
            )
            yield Finding("link-down", Severity.DRAIN, link.name, detail)


def link_slow(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A link that came up with fewer lanes or at a lower speed slows the whole job."""
    for link in facts.links or ():
        want = settings.expect.links.get(link.name)
        if want and want.rate_gbps and link.rate_gbps and link.rate_gbps < want.rate_gbps:
            detail = f"{link.rate_gbps:g} of {want.rate_gbps:g} Gb/s"
            yield Finding("link-slow", Severity.DRAIN_WHEN_IDLE, link.name, detail)


FABRIC_RULES: tuple[Rule, ...] = (link_down, link_slow)
