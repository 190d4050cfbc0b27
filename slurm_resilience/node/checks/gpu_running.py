"""The checks of how GPUs run: heat, power, clocks, and the modes they are set to."""

from slurm_resilience.node.checks.check import Check

GPU_RUNNING_CHECKS: dict[str, Check] = {
    "gpu-throttled": Check(
        probe="nvml",
        meaning="the GPU is slowed down: look at cooling (thermal) and power supplies (power brake)",
        rule=(
            "hardware slowdown, thermal slowdown, power brake: warn; those of the hardware for "
            "`thresholds.sustained_s`: drain when idle"
        ),
        why=(
            "gpud waits ten minutes too; idle and the software power cap are how a sound GPU works "
            "(azurehpc issue 595)"
        ),
        heals="itself",
        slow=True,
        of_gpus=True,
    ),
    "gpu-hot": Check(
        probe="nvml",
        meaning="the GPU is as hot as it may become",
        rule=(
            "at the board's own slowdown temperature, or `thresholds.gpu_temperature_c` where it "
            "tells none: warn"
        ),
        why="the board knows best; what follows from it is `gpu-throttled`",
        heals="itself",
        slow=True,
        of_gpus=True,
    ),
    "gpu-power-capped": Check(
        probe="nvml",
        meaning="the GPU's power limit is set low: `nvidia-smi -pl`",
        rule="below `expect.power_limit_w`, else below the board's default: warn",
        why="a limit that was set for a while stays; the whole job runs at its pace",
        heals="itself",
        slow=True,
        of_gpus=True,
    ),
    "gpu-clocks-low": Check(
        probe="nvml",
        meaning="the GPU's clock is set low, or stays low at work: `nvidia-smi -rgc` or `-rac`",
        rule=(
            "application clock below its default, or below `thresholds.gpu_clock_percent` at work "
            "without a power cap for `sustained_s`: warn"
        ),
        why="locked clocks survive the job that locked them; the whole job runs at their pace",
        heals="itself",
        slow=True,
        of_gpus=True,
    ),
    "persistence-off": Check(
        probe="nvml",
        meaning="persistence mode is off: start nvidia-persistenced",
        rule="off: warn",
        why=(
            "the driver then starts anew for each job: nvidia-smi took 30 s without and 2 s with "
            "(aks-gpu issue 105)"
        ),
        heals="itself",
        slow=True,
        of_gpus=True,
    ),
    "mig-unexpected": Check(
        probe="nvml",
        meaning="MIG mode is not as `expect.mig` says",
        rule="other than expected: drain when idle",
        why="a job that asked for a GPU would get a part of one; the mode changes with a reset",
        slow=True,
        of_gpus=True,
    ),
    "gpu-memory-in-use": Check(
        probe="nvml",
        meaning="GPU memory is in use, and no process uses the GPU; reset it",
        rule="above `thresholds.gpu_memory_mib` in two health checks in a row: warn",
        why=(
            "left by a process that died in the driver; others fail at 10 or 15 MiB, which the "
            "driver itself takes, and more with TCPX"
        ),
        slow=True,
        of_gpus=True,
    ),
    "gpu-process-left": Check(
        probe="nvml",
        meaning="a process computes on the GPU, and no job runs on the node",
        rule="no job for `thresholds.idle_s`: warn",
        why=(
            "the epilog ends what its own job left; what is found later may be somebody else's, so "
            "nothing is killed (deepops issue 1407)"
        ),
        heals="itself",
        slow=True,
        of_gpus=True,
    ),
}
