"""The checks of the kernel log."""

from slurm_resilience.node.checks.check import Check

KERNEL_CHECKS: dict[str, Check] = {
    "xid": Check(
        probe="kernel_log",
        meaning="the NVIDIA driver reported an Xid",
        rule=(
            "by NVIDIA's action: restart the application is nothing, reset drains when idle, "
            "reboot drains; settled by a driver load or GPU reset after it"
        ),
        why=(
            "NVIDIA's Xid catalogue; an application's own error never costs a node, and an old "
            "Xid none again (azurehpc issue 648)"
        ),
        heals="reset",
        of_gpus=True,
    ),
    "sxid": Check(
        probe="kernel_log",
        meaning="an NVSwitch reported an SXid",
        rule="by the word in the line: Fatal drains, Non-fatal warns",
        why=(
            "NVIDIA's fabric manager guide; lists of codes have called Non-fatal ones fatal "
            "(gpud issue 1174)"
        ),
        heals="reset",
        of_gpus=True,
    ),
    "gpu-fell-off-bus": Check(
        probe="kernel_log",
        meaning="the kernel log tells of a lost GPU without any Xid",
        rule="told by the kernel, no Xid 79 beside it: drain",
        why="a GPU may go without an Xid (gpud issue 1209)",
        heals="reboot",
        of_gpus=True,
    ),
    "gpu-init-failed": Check(
        probe="kernel_log",
        meaning="the driver could not start a GPU; reset it, then look at the driver's version",
        rule="RmInitAdapter failed: warn",
        why="said each time that somebody asks; whether a GPU is missing decides `gpu-missing`",
        heals="reset",
        of_gpus=True,
    ),
    "nic-fault": Check(
        probe="kernel_log",
        meaning="a network adapter's driver reported a fault",
        rule=(
            "firmware dead: drain; transmit time-outs: warn, at `thresholds.repeated` within an hour "
            "drain when idle; too hot, low power: warn"
        ),
        why="mlx5 driver sources; one time-out is weather",
        heals="reboot",
    ),
    "pcie-error": Check(
        probe="kernel_log",
        meaning="a PCIe link or the device behind it failed; reboot, then look at its seating",
        rule=(
            "AER or DPC says fatal: drain when idle, warn where the driver took the device up "
            "again; non-fatal, a card gone from its slot: warn; corrected: nothing"
        ),
        why="AER's own word; corrected errors are repeated by the link, their rate is another check",
        heals="reboot",
        slow=True,
    ),
    "host-memory-error": Check(
        probe="kernel_log",
        meaning="memory or a processor gave wrong data; the DIMM or processor needs replacing",
        rule=(
            "EDAC, a machine check or the firmware says uncorrected: drain when idle; deferred, a page "
            "taken out in time, or told at boot of before it: warn; corrected: nothing"
        ),
        why="by the status word: a corrected event has the same head line (gcm drains for it)",
        heals="reboot",
        slow=True,
    ),
    "disk-error": Check(
        probe="kernel_log",
        meaning="the kernel reports errors of a disk",
        rule=(
            "I/O errors, resets, time-outs: warn, at `thresholds.disk_errors` of one disk within an "
            "hour drain when idle; an array that lost too many: drain when idle; a command refused: warn"
        ),
        why=(
            "one error is weather, and a disk that goes is not the first time; one that cannot trim "
            "says so each week. A disk that the kernel gave up is `drive-missing`"
        ),
        heals="repair",
        slow=True,
    ),
    "file-system-error": Check(
        probe="kernel_log",
        meaning="a file system is damaged; check it",
        rule=(
            "remounted read-only or shut down: drain; an error that ext4, XFS or Btrfs found: drain "
            "when idle, one that could not be mounted for it warns; images in files are left out"
        ),
        why="what is written from then on may be lost; on what was not mounted nothing was",
        heals="reboot",
        slow=True,
    ),
    "nfs-silent": Check(
        probe="kernel_log",
        meaning="a file server does not answer",
        rule="not responding, and no later OK: warn",
        why="a silent server silences all its nodes at once, so it is no node's fault by itself",
        heals="itself",
        slow=True,
    ),
    "hung-task": Check(
        probe="kernel_log",
        meaning="a process is stuck in the kernel after a GPU error",
        rule="stuck after an Xid that still counts, or within 10 min of an Xid 45: warn",
        why="without a GPU error it is storage, mostly",
        heals="itself",
        of_gpus=True,
    ),
    "driver-hung": Check(
        probe="nvml",
        meaning="NVML does not answer and the kernel reports stuck processes",
        rule=(
            "NVML silent, and within the hour a process stuck that is the GPU stack's or came after a "
            "GPU error: drain when idle"
        ),
        why="two witnesses: one alone may be a slow start or a file server",
        heals="reboot",
        of_gpus=True,
    ),
}
