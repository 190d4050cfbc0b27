"""Rules over network links. Pure."""

from collections.abc import Iterator

import msgspec

from slurm_resilience.node.facts import LinkCounters, LinkFacts, NodeFacts
from slurm_resilience.node.facts.trends import HOUR_S
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

_INTEGRITY = ("local_link_integrity_errors", "excessive_buffer_overrun_errors")


def link_down(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Expected links: most adapters have ports that nobody uses. Others where they were up."""
    for link in facts.links or ():
        if link.is_up is not False:
            continue
        why = _why_down(link)
        if link.name in settings.expect.links:
            severity = Severity.WARN if _waits_for_subnet_manager(link) else Severity.DRAIN
            yield Finding("link-down", severity, link.name, why)
        elif link.rdma and _was_up(facts, link):
            detail = f"{why}; it was up earlier in this boot"
            yield Finding("link-down", Severity.WARN, link.name, detail)
    for name in _vanished(facts):
        if name not in settings.expect.links:
            detail = "no such device; it was up earlier in this boot"
            yield Finding("link-down", Severity.WARN, name, detail)


def _vanished(facts: NodeFacts) -> Iterator[str]:
    """Ports that were up earlier in this boot and that sysfs shows no more."""
    shown = {link.name for link in facts.links or ()}
    if facts.links is None:
        return
    for trend in facts.trends:
        is_port = trend.counter == "is_up" and ":" in trend.subject
        if is_port and trend.subject not in shown and any(up for _, up in trend.changes):
            yield trend.subject


def _why_down(link: LinkFacts) -> str:
    if not link.present:
        return "no such device"
    if _waits_for_subnet_manager(link):
        return f"{link.state}: waits for the subnet manager"
    state = f"{link.state} ({link.physical_state})" if link.physical_state else str(link.state)
    return f"{state}: cable or switch" if link.physical_state == "Polling" else state


def _waits_for_subnet_manager(link: LinkFacts) -> bool:
    # The cable is fine: the fabric's subnet manager has not come by.
    return link.present and link.physical_state == "LinkUp" and link.layer != "Ethernet"


def _was_up(facts: NodeFacts, link: LinkFacts) -> bool:
    trend = facts.trend(link.name, "is_up")
    return trend is not None and any(value for _, value in trend.changes)


def link_slow(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A link that came up with fewer lanes or at a lower speed slows the whole job."""
    for link in facts.links or ():
        want = settings.expect.links.get(link.name)
        if want and want.rate_gbps and link.rate_gbps:
            if link.rate_gbps < want.rate_gbps:
                detail = f"{link.rate_gbps:g} of {want.rate_gbps:g} Gb/s"
                yield Finding("link-slow", Severity.DRAIN_WHEN_IDLE, link.name, detail)
        elif link.is_up and link.rdma and link.rate_gbps:
            trend = facts.trend(link.name, "rate_gbps")
            best = max((value for _, value in trend.changes), default=0.0) if trend else 0.0
            if link.rate_gbps < best:
                detail = f"{link.rate_gbps:g} Gb/s, {best:g} earlier in this boot"
                yield Finding("link-slow", Severity.WARN, link.name, detail)
            elif link.lanes == 1:
                detail = f"{link.rate_gbps:g} Gb/s over a single lane"
                yield Finding("link-slow", Severity.WARN, link.name, detail)
        if want and link.is_up and link.duplex == "half":
            yield Finding("link-slow", Severity.DRAIN_WHEN_IDLE, link.name, "half duplex")


def link_flapping(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Within the last hour: what the port counted before the first look is no news."""
    for name, counter, grown in _growth(facts, settings, HOUR_S):
        if counter == "link_downed" and grown >= settings.thresholds.link_flaps:
            severity = _severity(name, settings)
            yield Finding(
                "link-flapping", severity, name, f"went down {grown:g} times within an hour"
            )


def link_integrity(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """The port itself found that its link or its buffers no longer do their work."""
    for name, counter, grown in _growth(facts, settings, HOUR_S):
        if counter in _INTEGRITY and grown:
            detail = f"{counter} grew by {grown:g} within an hour"
            yield Finding("link-integrity", _severity(name, settings), name, detail)


def link_errors(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Rates, never lifetime values: one old flap would warn for ever."""
    limits = msgspec.structs.asdict(settings.thresholds.link_errors_per_s)
    window_s = settings.thresholds.rate_window_s
    for name, counter, _ in _growth(facts, settings, window_s):
        trend, limit = facts.trend(name, counter), limits.get(counter)
        rate = (trend.per_second(window_s) if trend else None) or 0.0
        if limit and rate >= limit:
            detail = f"{counter}: {rate:.3g} a second"
            yield Finding("link-errors", Severity.WARN, name, detail)


def optics_alarm(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """By the module's own limits; a link that is down has no light, and says so elsewhere."""
    up = {link.name for link in facts.links or () if link.is_up}
    for module in facts.optics:
        if module.name not in up:
            continue
        told = list(module.alarms or ())
        hot, limit = module.temperature_c, module.temperature_limit_c
        if hot is not None and limit is not None and hot >= limit and not told:
            told = [f"{hot:g} °C, its limit is {limit:g}"]
        if told:
            power = module.receive_power_dbm
            light = f"; receives {', '.join(f'{one:g}' for one in power)} dBm" if power else ""
            detail = ", ".join(told) + light
            yield Finding("optics-alarm", Severity.WARN, module.name, detail)


NETWORK_RULES: tuple[Rule, ...] = (
    link_down, link_slow, link_flapping, link_integrity, link_errors, optics_alarm,
)  # fmt: skip


def _growth(
    facts: NodeFacts, settings: NodeSettings, over_s: float
) -> Iterator[tuple[str, str, float]]:
    """(link, counter, growth) of the links that are looked at; what did not move is left out."""
    for port in counted(facts, settings):
        for counter in port.values:
            trend = facts.trend(port.name, counter)
            grown = trend.added(over_s) if trend else 0.0
            if grown:
                yield port.name, counter, grown


def counted(facts: NodeFacts, settings: NodeSettings) -> Iterator[LinkCounters]:
    """The counters of links that jobs use: not of management ports."""
    rdma = {link.name for link in facts.links or () if link.rdma}
    for port in facts.link_counters:
        if port.name in settings.expect.links or port.name in rdma:
            yield port


def _severity(name: str, settings: NodeSettings) -> Severity:
    return Severity.DRAIN_WHEN_IDLE if name in settings.expect.links else Severity.WARN
