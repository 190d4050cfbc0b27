"""The checks of the node's memory."""

from slurm_resilience.node.checks.check import Check

MEMORY_CHECKS: dict[str, Check] = {
    "memory-missing": Check(
        probe="memory",
        meaning="the node has less memory than `expect.memory_mib`",
        rule="below `expect.memory_mib`: drain when idle",
        why="a DIMM that was disabled at boot shows only as less memory",
        heals="repair",
        slow=True,
    ),
    "memory-small": Check(
        probe="memory",
        meaning="the node has little memory for its GPUs: checkpoints' copies may not fit",
        rule="below `thresholds.memory_per_gpu_memory` x the GPUs' memory: warn",
        why="practice asks for 1.5 x; 3 % is left out, which kernel and firmware keep",
        heals="repair",
        slow=True,
        of_gpus=True,
        on_request=True,
    ),
    "memory-uncorrected": Check(
        probe="memory",
        meaning="host memory errors that ECC could not correct",
        rule="any: drain when idle",
        why="the kernel's EDAC counts what ECC could not correct",
        heals="reboot",
        slow=True,
    ),
    "memory-corrected-rate": Check(
        probe="memory",
        meaning="a DIMM keeps making errors that ECC corrects; the detail names it where the board does",
        rule="`thresholds.memory_corrected_per_hour` within an hour: warn",
        why="mcelog speaks up at 10 a day and page; a total since boot says nothing of now",
        heals="itself",
        slow=True,
    ),
    "memory-poisoned": Check(
        probe="memory",
        meaning="the kernel took pages out of use for memory errors",
        rule="HardwareCorrupted in /proc/meminfo above 0: warn",
        why="it is done ahead of an error too; the error itself is memory-uncorrected",
        heals="reboot",
        slow=True,
    ),
    "machine-check": Check(
        probe="memory",
        meaning="the processor raised machine check exceptions; see the kernel log, or mcelog",
        rule="any since boot: warn",
        why="corrected errors raise none, so a healthy node has 0 (/proc/interrupts, MCE)",
        heals="reboot",
        slow=True,
    ),
}
