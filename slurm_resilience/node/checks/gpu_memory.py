"""The checks of the memory of GPUs."""

from slurm_resilience.node.checks.check import Check

GPU_MEMORY_CHECKS: dict[str, Check] = {
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
    "ecc-uncorrected-lifetime": Check(
        probe="nvml",
        meaning="the board remembers memory errors that ECC could not correct",
        rule=(
            "any over its lifetime: warn; in SRAM beyond the board's own limit or "
            "`thresholds.sram_uncorrected_lifetime`: warn that it is one to replace"
        ),
        why=(
            "they were settled by a reset, so a drain would come back after each repair; more than "
            "4 in SRAM make a candidate for replacement (ml-engineering, its debugging notes)"
        ),
        heals="repair",
        slow=True,
        of_gpus=True,
    ),
    "ecc-corrected": Check(
        probe="nvml",
        meaning="very many memory errors, all of them corrected",
        rule="above `thresholds.ecc_corrected` since the last reset: warn",
        why=(
            "corrected errors are no fault by count: bounds of 10,000 to 25,000 drained sound nodes "
            "(azurehpc issue 650); fifty million is the widest bound in use"
        ),
        slow=True,
        of_gpus=True,
    ),
    "ecc-storm": Check(
        probe="nvml",
        meaning="memory errors are being corrected at a rate that slows the GPU",
        rule=(
            "over `thresholds.rate_window_s`: from `ecc_corrected_per_s` warn; from "
            "`ecc_storm_per_s` drain when idle, until the count begins anew"
        ),
        why=(
            "17,700 a second went on for hours on a GPU that passed for healthy, and took its "
            "monitoring down (NVSentinel issue 1748); a sound GPU has a few a day"
        ),
        slow=True,
        of_gpus=True,
    ),
    "ecc-mode": Check(
        probe="nvml",
        meaning="ECC is not as `expect.ecc` says",
        rule="other than expected: drain when idle",
        why="without ECC an error stays in the result; the mode changes with a reset",
        slow=True,
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
    "row-remap-exhausted": Check(
        probe="nvml",
        meaning="no spare rows are left in a bank of GPU memory, or too many were used",
        rule="a bank without a spare: warn; above `thresholds.remapped_rows` rows: drain when idle",
        why="the next error there fails to be remapped; DCGM's limit is 512 uncorrected ones",
        heals="repair",
        slow=True,
        of_gpus=True,
    ),
    "retired-pages": Check(
        probe="nvml",
        meaning="so many pages of GPU memory are retired that it should be replaced",
        rule=(
            "from `thresholds.retired_pages` on: drain when idle; above `retired_double_bit` for "
            "double-bit errors: warn"
        ),
        why="DCGM's limits: 63 pages, 15 of them for double-bit errors; boards before Ampere",
        heals="repair",
        slow=True,
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
}
