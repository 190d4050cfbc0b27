"""
Kernel-log lines -> events: what the kernel and its drivers say of faulty hardware.

Pure. `parse_line` and `parse_records` take messages as the kernel wrote them; `message_in` finds
the message in a line of `dmesg`, journalctl, a syslog file or a paste. One module a subject says
which lines there are; `reading` joins those that tell the same thing.
"""

from slurm_resilience.node.kernel_lines.event import KernelEvent, Kind, normalised_pci
from slurm_resilience.node.kernel_lines.lines import message_in, parse_line
from slurm_resilience.node.kernel_lines.nvidia import NVLINK5, RECOVERY_CHANGED
from slurm_resilience.node.kernel_lines.reading import Reading, parse_records

__all__ = [
    "NVLINK5",
    "RECOVERY_CHANGED",
    "KernelEvent",
    "Kind",
    "Reading",
    "message_in",
    "normalised_pci",
    "parse_line",
    "parse_records",
]
