"""The checks of file systems and drives."""

from slurm_resilience.node.checks.check import Check

STORAGE_CHECKS: dict[str, Check] = {
    "disk-missing": Check(
        probe="disk",
        meaning="a watched path is absent, or nothing is mounted there",
        rule="absent, or nothing mounted: drain",
        why="a job would write beneath the mount point, into the root file system",
        heals="itself",
        comes_up=True,
    ),
    "disk-stale": Check(
        probe="disk",
        meaning="a watched file system answers with an error; mount it again",
        rule="stale, not connected, or an I/O error: drain when idle; of a file server: warn",
        why=(
            "what was mounted there is gone. Only paths in `expect.disks` are looked at: "
            "per-user and container mounts come and go (nhc issue 27)"
        ),
        heals="itself",
        comes_up=True,
    ),
    "disk-read-only": Check(
        probe="disk",
        meaning="a watched file system cannot be written",
        rule="read-only and not meant to be: drain; of a file server: warn",
        why="the kernel remounts a file system so after errors",
        heals="reboot",
    ),
    "disk-full": Check(
        probe="disk",
        meaning="a watched file system has no room left",
        rule=(
            "`thresholds.disk_warn_percent` warns, `disk_full_percent` with less than `disk_free_gib` "
            "left drains when idle; of a file server: warn"
        ),
        why="what fills it may be a running job's, and goes with it; a server's all nodes see alike",
        heals="itself",
    ),
    "shm-full": Check(
        probe="shm",
        meaning="shared memory (/dev/shm) fills up; look for what ended jobs left there",
        rule="`thresholds.shm_warn_percent` warns",
        why="NCCL, data loaders and heartbeats need it; a job may use all of it while it runs",
        heals="itself",
        slow=True,
    ),
    "drive-missing": Check(
        probe="drives",
        meaning="a drive is gone from its bus; reboot, then look at its seating",
        rule=(
            "fewer than `expect.nvme_drives`, or given up by the kernel, as sysfs or its log tells: "
            "drain when idle"
        ),
        why="a drive that fell off tells nothing any more; sysfs counts them without any tool",
        heals="reboot",
        slow=True,
    ),
    "drive-failing": Check(
        probe="drives",
        meaning="a drive says of itself that it fails; save what is on it and replace it",
        rule=(
            "NVMe critical warning: reliability or read-only drains when idle, the rest warns; "
            "SMART failed: drain when idle"
        ),
        why="NVMe base specification, SMART / Health Information; the drive's own limits",
        heals="repair",
        slow=True,
    ),
    "drive-worn": Check(
        probe="drives",
        meaning="an NVMe drive has used up the endurance that it was sold with; order one",
        rule="`thresholds.drive_worn_percent` used: warn",
        why="NVMe base specification: at 100 it may still work, and is not covered any more",
        heals="repair",
        slow=True,
    ),
    "drive-media-errors": Check(
        probe="drives",
        meaning="an NVMe drive lost data; look at the files, then at the drive",
        rule="more than a day before, or than at the first reading of this boot: warn",
        why="each is data that could not be read back; the count is of the drive's life",
        heals="itself",
        slow=True,
    ),
    "raid-degraded": Check(
        probe="raid",
        meaning="an array of the kernel's RAID lacks a member; replace it",
        rule="a member missing, or not started: warn; stripes without a member: drain when idle",
        why="Linux md: a mirror goes on without a member, RAID 0 does not",
        heals="itself",
        slow=True,
    ),
}
