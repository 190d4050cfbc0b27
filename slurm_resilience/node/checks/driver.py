"""The checks of the NVIDIA driver as a whole."""

from slurm_resilience.node.checks.check import Check

DRIVER_CHECKS: dict[str, Check] = {
    "driver-library-mismatch": Check(
        probe="nvml",
        meaning="the NVIDIA driver was updated but not reloaded; reboot or reload it",
        rule="NVML says so: drain",
        why="no CUDA program starts until the reboot; seen as nvidia-smi status 18",
        heals="reboot",
        of_gpus=True,
    ),
    "driver-not-loaded": Check(
        probe="nvml",
        meaning="GPUs are expected, but the NVIDIA driver is not loaded",
        rule="GPUs expected and no driver: drain",
        why="a node without GPUs has no driver either, so only where `expect.gpus` is above 0",
        heals="reboot",
        of_gpus=True,
        comes_up=True,
    ),
    "nvml-unavailable": Check(
        probe="nvml",
        meaning="NVML cannot be used, so nothing is known of the GPUs",
        rule="any other failure of NVML to start: unknown",
        why=(
            "NVML fails so inside a container whose devices were taken away, on a sound node "
            "(nvidia-container-toolkit issue 1227)"
        ),
        heals="itself",
        of_gpus=True,
    ),
    "gpu-missing": Check(
        probe="nvml",
        meaning="GPUs are missing; reboot, then look at their seating",
        rule="fewer than `expect.gpus`: drain; else gone since earlier in this boot: drain when idle",
        why=(
            "NVML never misses a GPU that it does not see, and nvidia-smi ends with 0; Slurm goes on "
            "handing it out"
        ),
        heals="reboot",
        of_gpus=True,
        comes_up=True,
    ),
    "driver-version": Check(
        probe="nvml",
        meaning="another NVIDIA driver than `expect.driver_version`",
        rule="another than expected: warn",
        why="ranks on different drivers may differ in speed or fail in NCCL; no harm by itself",
        heals="reboot",
        slow=True,
        of_gpus=True,
    ),
    "gpus-differ": Check(
        probe="nvml",
        meaning=(
            "GPUs of one model on this node differ in VBIOS, ECC mode, memory, PCIe lanes or power "
            "limit"
        ),
        rule="any difference: warn",
        why="a job runs at the pace of its slowest GPU; seen after a GPU was replaced",
        heals="repair",
        slow=True,
        of_gpus=True,
    ),
}
