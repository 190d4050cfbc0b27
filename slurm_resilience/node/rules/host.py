"""Rules over disks and memory. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings


def disk_missing(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A job would otherwise write beneath the mount point, into the root file system."""
    for disk in facts.disks:
        want = settings.expect.disks.get(disk.path)
        if not disk.present:
            yield Finding("disk-missing", Severity.DRAIN, disk.path, "does not exist")
        elif want and want.mounted and disk.mounted is False:
            yield Finding("disk-missing", Severity.DRAIN, disk.path, "nothing is mounted there")


def disk_read_only(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """The kernel remounts a file system read-only after errors."""
    for disk in facts.disks:
        want = settings.expect.disks.get(disk.path)
        if disk.read_only and (want is None or want.writable):
            yield Finding("disk-read-only", Severity.DRAIN, disk.path, "cannot be written")


def disk_full(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """When idle: what fills it may be a running job's, and goes with it."""
    limits = settings.thresholds
    for disk in facts.disks:
        shares = {"space": disk.used_percent, "inodes": disk.inodes_used_percent}
        for what, share in shares.items():
            if share is None or share < limits.disk_warn_percent:
                continue
            full = share >= limits.disk_full_percent
            severity = Severity.DRAIN_WHEN_IDLE if full else Severity.WARN
            yield Finding("disk-full", severity, disk.path, f"{share} % of {what} used")


def memory_missing(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A DIMM that was disabled at boot shows only as less memory."""
    expected = settings.expect.memory_mib
    total = facts.memory.total_mib if facts.memory else None
    if expected and total is not None and total < expected:
        detail = f"{total} of {expected} MiB"
        yield Finding("memory-missing", Severity.DRAIN_WHEN_IDLE, "node", detail)


def memory_uncorrected(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Counted by the kernel since boot."""
    if facts.memory and facts.memory.uncorrected:
        detail = f"{facts.memory.uncorrected} uncorrected host memory errors since boot"
        yield Finding("memory-uncorrected", Severity.DRAIN_WHEN_IDLE, "node", detail)


HOST_RULES: tuple[Rule, ...] = (
    disk_missing, disk_read_only, disk_full, memory_missing, memory_uncorrected,
)  # fmt: skip
