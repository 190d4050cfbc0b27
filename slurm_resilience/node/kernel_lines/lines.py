"""
One line -> its event.

Any user can put text into the kernel log: a process has a name of any 15 characters, which the
kernel writes at the start of a line when it crashes; a file, a cgroup, an argument has one that it
writes somewhere in the middle. So a message is known by how it begins, and by more than 15
characters of it; never by what stands somewhere within.
"""

import re
from collections.abc import Callable

from slurm_resilience.node.kernel_lines import bus, memory, network, nvidia, storage, tasks
from slurm_resilience.node.kernel_lines.event import NAME, KernelEvent
from slurm_resilience.node.kernel_lines.stamps import message_of

_Parsers = tuple[tuple[str, Callable[[str], KernelEvent | None]], ...]

_PARSERS: _Parsers = (
    ("NVRM: Xid", nvidia.xid),
    ("SXid (", nvidia.sxid),
    (nvidia.LOST, nvidia.gpu_lost),
    ("(rev ff)", nvidia.gpu_answers_ones),
    ("RmInitAdapter failed", nvidia.gpu_init_failed),
    ("NVRM: GPU at PCI", nvidia.gpu_named),
    ("NVRM: loading NVIDIA UNIX", nvidia.driver_loaded),
    ("mlx5_core", network.nic),
    ("pciehp: ", bus.pcie_removed),
    ("ink ", network.link),
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
_BESIDE: _Parsers = (
    ("GPU reset executed: ", nvidia.gpu_reset),
    ("Lost carrier", network.carrier),
)
"""What programs write to the log of a node. /dev/kmsg marks it as theirs; a log file may not."""

_DRIVER = "NVRM: "
_MARKS = ("NVRM", *(mark for mark, _ in (*_PARSERS, *_BESIDE)))
_OF_A_PROCESS = re.compile(
    rf"(?:traps: |signal: )?{NAME} ?(?:\[\d+\]|\(\d+\)| invoked oom-killer|: page allocation)",
    re.DOTALL,
)
"""What begins with the name of a process, and tells of that."""

_MOST_LINE = 2048
"""A longer line is read as far as this: a kernel record is at most 1 KiB."""
_MOST_HEAD = 160
_BEGINS = re.compile(r"(?<![\w/.-])[\w\[{]")


def parse_line(line: str) -> KernelEvent | None:
    """The event of one message of the kernel, None where it tells of none that is known here."""
    line = line[:_MOST_LINE]
    event = _first(_BESIDE, line)
    if event or _OF_A_PROCESS.match(line):
        return event
    return _first(_PARSERS, line)


def message_in(line: str) -> str:
    """
    The message within a line of any file, to be parsed.

    Where the line has a head as the kernel's logs have, what stands behind that. Else from where
    a message that is known here begins: people and programs put words of their own in front.
    """
    message, is_known = message_of(line[:_MOST_LINE])
    if is_known or not may_tell(message):
        return message
    for begin in _BEGINS.finditer(message, 0, _MOST_HEAD):
        rest = message[begin.start() :]
        if _OF_A_PROCESS.match(rest):
            break
        if rest.startswith(_DRIVER) or parse_line(rest):
            return rest
    return message


def may_tell(line: str) -> bool:
    """Whether a line is worth a closer look: most lines of a log are not."""
    return any(mark in line for mark in _MARKS)


def _first(parsers: _Parsers, line: str) -> KernelEvent | None:
    for mark, parse in parsers:
        if mark in line and (event := parse(line)):
            return event
    return None
