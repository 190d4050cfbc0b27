"""
Kernel-log lines -> events: what the kernel and its drivers say of faulty hardware.

Pure. Lines may come from /dev/kmsg, `dmesg`, journalctl or a syslog file; what stands before the
message does not matter. One module a subject says which lines there are; `reading` joins those
that tell the same thing.
"""

from slurm_resilience.node.kernel_lines.event import KernelEvent, Kind, normalised_pci
from slurm_resilience.node.kernel_lines.lines import parse_line
from slurm_resilience.node.kernel_lines.nvidia import NVLINK5, RECOVERY_CHANGED
from slurm_resilience.node.kernel_lines.reading import Reading, parse_records

__all__ = [
    "NVLINK5",
    "RECOVERY_CHANGED",
    "KernelEvent",
    "Kind",
    "Reading",
    "normalised_pci",
    "parse_line",
    "parse_records",
]
