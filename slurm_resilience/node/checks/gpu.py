"""The checks of single GPUs."""

from slurm_resilience.node.checks.check import Check

GPU_CHECKS: dict[str, Check] = {
    "gpu-lost": Check(
        probe="nvml",
        meaning="the GPU has fallen off the bus; reboot, then look at its seating",
        rule="lost by name, or an error that says so to every question: drain",
        why="a GPU off the bus comes back with a reboot or power cycle only; Xid 79 may be missing",
        heals="reboot",
        of_gpus=True,
    ),
    "reset-required": Check(
        probe="nvml",
        meaning="the GPU does no work until it is reset",
        rule="NVML says so: drain when idle",
        why="NVML_ERROR_RESET_REQUIRED",
        heals="reset",
        of_gpus=True,
    ),
    "recovery-action": Check(
        probe="nvml",
        meaning="the driver itself asks for a reset or a reboot",
        rule="by action: reset drains when idle, reboot drains, none is nothing",
        why="the driver's own verdict, NVML_GPU_RECOVERY_ACTION",
        heals="reset",
        of_gpus=True,
    ),
    "inforom-corrupted": Check(
        probe="nvml",
        meaning="the board's infoROM is corrupted; flash or replace the GPU",
        rule="NVML says so: warn",
        why=(
            "nvidia-smi ends with 14 for it, which others take for a dead GPU or overlook "
            "(pytorch issue 87464); no result is wrong for it"
        ),
        heals="repair",
        slow=True,
        of_gpus=True,
    ),
    "leftover-process": Check(
        probe="nvml",
        meaning="a process of an ended job cannot be killed",
        rule="does not die of SIGKILL within 2 s: drain when idle",
        why="it sits in the driver; the next job would meet its memory",
        heals="reboot",
    ),
}
