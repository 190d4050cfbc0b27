"""The checks of the kernel log."""

from slurm_resilience.node.checks.check import Check

KERNEL_CHECKS: dict[str, Check] = {
    "xid": Check(
        probe="kernel_log",
        meaning="the NVIDIA driver reported an Xid",
        rule=(
            "by NVIDIA's action: restart the application is nothing, reset drains when idle, "
            "reboot drains"
        ),
        why="NVIDIA's Xid catalogue; an application's own error never costs a node",
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
    "nic-fault": Check(
        probe="kernel_log",
        meaning="a network adapter's driver reported a fault",
        rule=(
            "firmware dead: drain; transmit time-outs: warn, at `thresholds.repeated` drain "
            "when idle; too hot, low power: warn"
        ),
        why="mlx5 driver sources; one time-out is weather",
        heals="reboot",
    ),
    "hung-task": Check(
        probe="kernel_log",
        meaning="a process is stuck in the kernel after a GPU error",
        rule="a stuck process after a GPU error: warn",
        why="without a GPU error it is storage, mostly",
        heals="itself",
        of_gpus=True,
    ),
    "driver-hung": Check(
        probe="nvml",
        meaning="NVML does not answer and the kernel reports stuck processes",
        rule="NVML silent and a stuck process: drain when idle",
        why="two witnesses: one alone may be a slow start or a file server",
        heals="reboot",
        of_gpus=True,
    ),
}
