"""Rules over file systems and drives. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import DiskFacts, NodeFacts
from slurm_resilience.node.facts.trends import DAY_S
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

_OF_SERVERS = {
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "beegfs_nodev", "ceph", "cifs", "smb3", "wekafs",
    "panfs", "pvfs2", "afs", "9p", "virtiofs", "glusterfs", "ocfs2", "gfs2",
}  # fmt: skip
"""Types of file systems that many nodes share; those through FUSE (`fuse.juicefs`) are too."""


def _at_most(severity: Severity, disk: DiskFacts) -> Severity:
    """A warning of what a file server serves: it looks alike from all its nodes at once."""
    kind = disk.type or ""
    is_shared = kind in _OF_SERVERS or kind.startswith("fuse.")
    return min(severity, Severity.WARN) if is_shared else severity


def disk_missing(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A job would otherwise write beneath the mount point, into the root file system."""
    for disk in facts.disks:
        want = settings.expect.disks.get(disk.path)
        if not disk.present:
            yield Finding("disk-missing", Severity.DRAIN, disk.path, "does not exist")
        elif want and want.mounted and disk.mounted is False:
            yield Finding("disk-missing", Severity.DRAIN, disk.path, "nothing is mounted there")


def disk_stale(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """What is mounted there is gone: whoever opens a file gets the same answer."""
    for disk in facts.disks:
        if disk.error:
            severity = _at_most(Severity.DRAIN_WHEN_IDLE, disk)
            yield Finding("disk-stale", severity, disk.path, disk.error)


def disk_read_only(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """The kernel remounts a file system read-only after errors."""
    for disk in facts.disks:
        want = settings.expect.disks.get(disk.path)
        if disk.read_only and (want is None or want.writable):
            severity = _at_most(Severity.DRAIN, disk)
            yield Finding("disk-read-only", severity, disk.path, "cannot be written")


def disk_full(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """When idle: what fills it may be a running job's, and goes with it."""
    limits = settings.thresholds
    for disk in facts.disks:
        shares = {"space": disk.used_percent, "inodes": disk.inodes_used_percent}
        for what, share in shares.items():
            if share is None or share < limits.disk_warn_percent:
                continue
            full = share >= limits.disk_full_percent
            if what == "space" and disk.free_gib is not None:
                full = full and disk.free_gib < limits.disk_free_gib
            severity = _at_most(Severity.DRAIN_WHEN_IDLE if full else Severity.WARN, disk)
            yield Finding("disk-full", severity, disk.path, f"{share} % of {what} used")


def shm_full(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A warning only: a job may use all of it, and what it leaves is seen on the idle node."""
    used = facts.shm.used_percent if facts.shm else None
    if facts.shm and used is not None and used >= settings.thresholds.shm_warn_percent:
        yield Finding("shm-full", Severity.WARN, facts.shm.path, f"{used} % of space used")


GONE = {"dead", "offline"}
"""The kernel's words for an NVMe drive, and for another one, that it has given up."""

DEGRADED = {
    0x01: "its spare blocks are used up",
    0x02: "its temperature is out of range",
    0x10: "its volatile memory is not backed up",
    0x20: "its persistent memory is read-only",
}
"""Bits of an NVMe drive's critical warning under which it still works."""
BROKEN = {
    0x04: "it is no longer reliable, for errors of its media or inside",
    0x08: "it cannot be written any more",
}
"""Those under which data is at risk."""


def drive_missing(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """One that fell off the bus leaves nothing behind but its absence."""
    for drive in facts.drives or ():
        if drive.state in GONE:
            detail = f"the kernel has given it up: {drive.state}"
            yield Finding("drive-missing", Severity.DRAIN_WHEN_IDLE, drive.name, detail)
    expected = settings.expect.nvme_drives
    found = [drive for drive in facts.drives or () if drive.name.startswith("nvme")]
    if expected is not None and facts.drives is not None and len(found) < expected:
        detail = f"{len(found)} of {expected} NVMe drives"
        yield Finding("drive-missing", Severity.DRAIN_WHEN_IDLE, "node", detail)


def drive_failing(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """By the drive's own word, not by a limit of ours."""
    for drive in facts.drives or ():
        warning = drive.critical_warning or 0
        broken = [text for bit, text in BROKEN.items() if warning & bit]
        degraded = [text for bit, text in DEGRADED.items() if warning & bit]
        if drive.critical_warning is None and drive.passed is False:
            broken = ["SMART expects it to fail within a day"]
        if broken or degraded:
            severity = Severity.DRAIN_WHEN_IDLE if broken else Severity.WARN
            detail = "; ".join(broken + degraded)
            yield Finding("drive-failing", severity, drive.name, detail)


def drive_worn(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """It works on, mostly for long: time to order one."""
    for drive in facts.drives or ():
        used = drive.percent_used
        if used is not None and used >= settings.thresholds.drive_worn_percent:
            detail = f"{used} % of its rated endurance used"
            yield Finding("drive-worn", Severity.WARN, drive.name, detail)


def drive_media_errors(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """The count is of the drive's life: only what it grew by says something of now."""
    for drive in facts.drives or ():
        trend = facts.trend(drive.name, "media_errors")
        grown = int(trend.added(DAY_S)) if trend else 0
        if grown > 0:
            detail = f"{grown} more media errors within a day, {drive.media_errors} in all"
            yield Finding("drive-media-errors", Severity.WARN, drive.name, detail)


def raid_degraded(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """A mirror works on without a member; stripes do not."""
    for raid in facts.raids:
        lost = raid.level in {"raid0", "linear"} and raid.failed
        if raid.state == "broken" or lost:
            detail = "a member is gone, and with it the array"
            yield Finding("raid-degraded", Severity.DRAIN_WHEN_IDLE, raid.name, detail)
        elif raid.state == "inactive":
            yield Finding("raid-degraded", Severity.WARN, raid.name, "is not started")
        elif raid.missing or raid.failed:
            names = f": {', '.join(raid.failed)}" if raid.failed else ""
            after = ", being rebuilt" if raid.recovering else ""
            detail = f"{raid.missing or len(raid.failed)} of its members missing{names}{after}"
            yield Finding("raid-degraded", Severity.WARN, raid.name, detail)


STORAGE_RULES: tuple[Rule, ...] = (
    disk_missing, disk_stale, disk_read_only, disk_full, shm_full, drive_missing, drive_failing, drive_worn,
    drive_media_errors, raid_degraded,
)  # fmt: skip
