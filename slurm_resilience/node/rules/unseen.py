"""Rules over what could not be seen. Pure."""

from collections.abc import Iterator, Mapping

from slurm_resilience.node.facts import NOT_SUPPORTED, RESET_REQUIRED, NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.network import counted
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings


def probe_hung(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """A probe that hangs may be the fault, or the file server's; it decides nothing alone."""
    for probe in facts.hung:
        yield Finding("probe-hung", Severity.UNKNOWN, probe, "no answer in its time")


def unread(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Absence of evidence stays visible."""
    for probe, why in facts.unread.items():
        yield Finding("unread", Severity.UNKNOWN, probe, why)
    for gpu in facts.gpus or ():
        told = {NOT_SUPPORTED, RESET_REQUIRED}  # no news, and a rule of its own
        failed = {field: why for field, why in gpu.unread.items() if why not in told}
        if failed and not gpu.lost:
            detail = "; ".join(f"{field}: {why}" for field, why in failed.items())
            yield Finding("unread", Severity.UNKNOWN, f"gpu{gpu.index}", detail, gpu=gpu.index)
    for name, fields in _unread_of_the_host(facts, settings):
        failed = {
            field: why for field, why in fields.items() if not why.startswith(NOT_SUPPORTED)
        }
        if failed:
            detail = "; ".join(f"{field}: {why}" for field, why in failed.items())
            yield Finding("unread", Severity.UNKNOWN, name, detail)
    for link in facts.links or ():
        if link.name in settings.expect.links and "state" in link.unread:
            yield Finding("unread", Severity.UNKNOWN, link.name, link.unread["state"])


def _unread_of_the_host(
    facts: NodeFacts, settings: NodeSettings
) -> Iterator[tuple[str, Mapping[str, str]]]:
    if facts.memory:
        yield "memory", facts.memory.unread
    for drive in facts.drives or ():
        yield drive.name, drive.unread
    for ups in facts.upses:
        yield ups.name, ups.unread
    if facts.load:
        yield "load", facts.load.unread
    for device in facts.pcie:
        yield device.address, device.unread
    for port in counted(facts, settings):
        yield port.name, port.unread
    for module in facts.optics:
        yield module.name, module.unread


UNSEEN_RULES: tuple[Rule, ...] = (probe_hung, unread)
