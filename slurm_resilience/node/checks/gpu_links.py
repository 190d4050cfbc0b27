"""The checks of NVLink, the NVSwitch fabric, and the PCIe link of GPUs, as NVML tells them."""

from slurm_resilience.node.checks.check import Check

GPU_LINK_CHECKS: dict[str, Check] = {
    "nvlink-down": Check(
        probe="nvml",
        meaning="NVLinks of the GPU are not up",
        rule=(
            "fewer than `expect.nvlinks`: drain when idle; without it: all down that were up earlier "
            "in this boot drain when idle, some warn"
        ),
        why=(
            "a PCIe card has no link up and misses none (NVSentinel issue 1481), so by expectation or "
            "by what was seen; in MIG mode there are none"
        ),
        slow=True,
        of_gpus=True,
        comes_up=True,
    ),
    "nvlink-errors": Check(
        probe="nvml",
        meaning="NVLinks of the GPU repeat or recover",
        rule=(
            "within `thresholds.rate_window_s`: `nvlink_crc_per_s` CRC errors a second, or a link "
            "that had to recover: warn"
        ),
        why="DCGM's limits; counts over a lifetime would warn for ever",
        heals="itself",
        slow=True,
        of_gpus=True,
    ),
    "fabric-not-ready": Check(
        probe="nvml",
        meaning=(
            "the fabric manager is not through with the GPU: no CUDA program starts; look at "
            "nvidia-fabricmanager"
        ),
        rule="not through, or an error: warn, with `expect.nvlinks` drain when idle; degraded: warn",
        why=(
            "NVML_GPU_FABRIC_STATE; an H100 PCIe has none (gpud issue 1147), a virtual machine may "
            "never get one"
        ),
        heals="itself",
        slow=True,
        of_gpus=True,
        comes_up=True,
    ),
    "gpu-pcie-narrow": Check(
        probe="nvml",
        meaning="the GPU's PCIe link runs on fewer lanes than it could; look at its seating",
        rule=(
            "below `expect.pcie` or `expect.pcie_width`: drain when idle; without them, below the "
            "board's: warn"
        ),
        why="lanes do not rest when the GPU does; many a board has slots of 8 lanes",
        heals="repair",
        slow=True,
        of_gpus=True,
    ),
    "gpu-pcie-slow": Check(
        probe="nvml",
        meaning="the GPU's PCIe link does not reach its speed at work",
        rule="below its best generation, at work, for `thresholds.sustained_s`: warn",
        why="an idle GPU's link rests at the first generation, which is no fault",
        heals="reboot",
        slow=True,
        of_gpus=True,
    ),
    "gpu-pcie-replays": Check(
        probe="nvml",
        meaning="the GPU's PCIe link has to send too much twice",
        rule="over `thresholds.rate_window_s`, more than one bit in 10^12 allows: warn",
        why=(
            "the PCIe specification's bit error rate, as DCGM judges: 31 a minute at generation 5 "
            "with 16 lanes"
        ),
        heals="repair",
        slow=True,
        of_gpus=True,
    ),
}
