"""The checks of single GPUs."""

from slurm_resilience.node.checks.check import Check

GPU_CHECKS: dict[str, Check] = {
    "gpu-lost": Check(
        probe="nvml",
        meaning="the GPU has fallen off the bus; reboot, then look at its seating",
        rule="lost by name, or an error to every question: drain",
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
    "ecc-uncorrected": Check(
        probe="nvml",
        meaning="memory errors that ECC could not correct; reset the GPU",
        rule="any since the last reset: drain when idle",
        why=(
            "NVIDIA's GPU memory error management: memory is wrong until the reset. The "
            "lifetime total never drains: it would again after each repair"
        ),
        heals="reset",
        of_gpus=True,
    ),
    "row-remap-pending": Check(
        probe="nvml",
        meaning="a faulty row is mapped out by the next GPU reset",
        rule="pending: drain when idle",
        why="NVIDIA: the next reset maps the row out; nothing for the running job",
        heals="reset",
        of_gpus=True,
    ),
    "row-remap-failed": Check(
        probe="nvml",
        meaning="no spare row is left; the GPU needs replacing",
        rule="failed: drain",
        why="NVIDIA: the criterion for replacing the GPU",
        heals="repair",
        of_gpus=True,
    ),
    "retired-pages-pending": Check(
        probe="nvml",
        meaning="faulty pages are retired by the next GPU reset",
        rule="pending: drain when idle",
        why="NVIDIA's dynamic page retirement, on boards before Ampere",
        heals="reset",
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
