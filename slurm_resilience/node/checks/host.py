"""The checks of disks and memory."""

from slurm_resilience.node.checks.check import Check

HOST_CHECKS: dict[str, Check] = {
    "disk-missing": Check(
        probe="disk",
        meaning="a watched path is absent, or nothing is mounted there",
        rule="absent, or nothing mounted: drain",
        why="a job would write beneath the mount point, into the root file system",
        heals="itself",
    ),
    "disk-read-only": Check(
        probe="disk",
        meaning="a watched file system cannot be written",
        rule="read-only and not meant to be: drain",
        why="the kernel remounts a file system so after errors",
        heals="reboot",
    ),
    "disk-full": Check(
        probe="disk",
        meaning="a watched file system has no room left",
        rule="`thresholds.disk_warn_percent` warns, `disk_full_percent` drains when idle",
        why="what fills it may be a running job's, and goes with it",
        heals="itself",
    ),
    "memory-missing": Check(
        probe="memory",
        meaning="the node has less memory than `expect.memory_mib`",
        rule="below `expect.memory_mib`: drain when idle",
        why="a DIMM that was disabled at boot shows only as less memory",
        heals="repair",
        slow=True,
    ),
    "memory-uncorrected": Check(
        probe="memory",
        meaning="host memory errors that ECC could not correct",
        rule="any: drain when idle",
        why="the kernel's EDAC counts what ECC could not correct",
        heals="reboot",
        slow=True,
    ),
}
