"""One line -> its event."""

from collections.abc import Callable

from slurm_resilience.node.kernel_lines import bus, memory, network, nvidia, storage, tasks
from slurm_resilience.node.kernel_lines.event import KernelEvent

_PARSERS: tuple[tuple[str, Callable[[str], KernelEvent | None]], ...] = (
    ("NVRM: Xid", nvidia.xid),
    ("SXid (", nvidia.sxid),
    (nvidia.LOST, nvidia.gpu_lost),
    ("(rev ff)", nvidia.gpu_answers_ones),
    ("RmInitAdapter failed", nvidia.gpu_init_failed),
    ("NVRM: GPU at PCI", nvidia.gpu_named),
    ("GPU reset executed: ", nvidia.gpu_reset),
    ("NVRM: loading NVIDIA UNIX", nvidia.driver_loaded),
    ("mlx5_core", network.nic),
    ("pciehp: ", bus.pcie_removed),
    ("ink ", network.link),
    ("ost carrier", network.link),
    ("blocked for more than", tasks.hung_task),
    ("ut of memory: ", tasks.oom_kill),
    ("EDAC ", memory.edac),
    ("Memory failure: ", memory.poisoned),
    ("[Hardware Error]", memory.machine_check),
    ("Machine Check", memory.machine_check),
    ("PCIe Bus Error", bus.pcie_error),
    (": AER: ", bus.pcie_fatal),
    (": AER: ", bus.pcie_recovered),
    (": DPC: ", bus.pcie_contained),
    ("available PCIe bandwidth", bus.pcie_narrow),
    ("nvme", storage.nvme),
    ("no available path", storage.no_path),
    ("Disk failure on ", storage.array),
    (" error, dev ", storage.block),
    ("-fs ", storage.file_system),
    ("XFS ", storage.file_system),
    ("BTRFS ", storage.file_system),
    ("nfs: server", storage.nfs),
    ("Lock reclaim failed", storage.nfs_locks),
)
"""What a line has to hold, and who reads it then. The first that knows it has it."""

_MARKS = ("NVRM", *{mark for mark, _ in _PARSERS})

_MOST_LINE = 2048
"""A longer line is read as far as this: a kernel record is at most 1 KiB."""


def parse_line(line: str) -> KernelEvent | None:
    """The event of one line, None where it tells of none that is known here."""
    line = line[:_MOST_LINE]
    for mark, parse in _PARSERS:
        if mark in line:
            event = parse(line)
            if event:
                return event
    return None


def may_tell(line: str) -> bool:
    """Whether a line is worth a closer look: most lines of a log are not."""
    return any(mark in line for mark in _MARKS)
