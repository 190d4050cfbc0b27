"""Rules about lines of the kernel log: what an Xid means stands in the health checks' own table."""

import re

import msgspec

from slurm_resilience.diagnosis.rules.row import Row
from slurm_resilience.node.findings import Severity
from slurm_resilience.node.kernel_lines import KernelEvent, message_in, parse_line
from slurm_resilience.node.xid import Action, action_of, advice_of, severity_of

CONTAINED = 94
"""A memory error that took down one application; NVIDIA asks for no more than its restart."""
CLEANUP = 45
UNCORRECTED = re.compile(r"\bUE\b|[Uu]ncorrect|[Ff]atal|poison|Memory failure")
SIGNS = (
    "NVRM", "SXid", "mlx5_core", "blocked for more than", "Hardware Error", "EDAC", "Machine", "Memory failure",
    "nfs: server", " error, dev ", "-fs error", "XFS ", "BTRFS ",
)  # fmt: skip
"""A line without one of these is none that is known here."""
_MARKS = (*SIGNS, "kernel:", "oom-kill", "oom_kill", "Out of memory: Kill")

XID_HARDWARE = Row(
    "xid-hardware", r"NVRM: Xid ", "hardware", "exclude-node",
    "the GPU's driver reports a fault of the hardware", "NVIDIA/open-gpu-kernel-modules#1150",
    "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149",
    accuses="reporter", weight=2, confidence="high",
)  # fmt: skip
XID_CONTAINED = Row(
    "xid-contained", r"NVRM: Xid \([^)]*\): 94,", "hardware", "same-nodes",
    "a memory error that was contained in one process: restart; where it comes back, exclude the node",
    "akash-network/support#244",
    "[Fri Aug  9 13:32:56 2024] NVRM: Xid (PCI:0000:00:08): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No",
    accuses="reporter", confidence="high",
)  # fmt: skip
XID_APPLICATION = Row(
    "xid-application", r"NVRM: Xid ", "software", "same-nodes",
    "the driver stopped a program for an error of its own: most often a kernel or an index",
    "leptonai/gpud#46",
    "[Fri Aug 30 11:43:09 2024] NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): Illegal Instruction Parameter",
    weight=0,
)  # fmt: skip
SXID = Row(
    "nvswitch", r"SXid \(PCI:", "hardware", "exclude-node",
    "an NVSwitch reports a fatal error; the node needs a look", "NVIDIA: Fabric Manager guide",
    "nvidia-nvswitch3: SXid (PCI:0000:07:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    accuses="reporter", weight=2, confidence="high",
)  # fmt: skip
NIC = Row(
    "adapter", r"mlx5_core ", "network", "exclude-node",
    "a network adapter reports a fault: cable, optics, heat or power", "Linux: mlx5 driver",
    "mlx5_core 0000:41:00.0: Port module event[error]: module 0, Cable error, High Temperature",
    accuses="reporter", weight=2,
)  # fmt: skip
HUNG = Row(
    "task-blocked", r"blocked for more than \d+ seconds", "storage", "same-nodes",
    "a process waited in the kernel for minutes: most often a file system that does not answer",
    "Linux: kernel/hung_task.c", "INFO: task python3:4711 blocked for more than 120 seconds.",
    accuses="reporter", weight=0, confidence="low",
)  # fmt: skip
MEMORY = Row(
    "memory-uncorrected", r"Hardware Error|EDAC|Machine [Cc]heck|Memory failure", "hardware", "exclude-node",
    "the node's memory or a processor reports an error that could not be corrected",
    "Linux: drivers/edac", "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#0_DIMM#0",
    accuses="reporter", weight=2,
)  # fmt: skip
SERVER = Row(
    "file-server", r"nfs: server \S+ not responding", "storage", "same-nodes",
    "a file server did not answer", "Linux: net/sunrpc", "nfs: server nas01 not responding, still trying",
    weight=0,
)  # fmt: skip
DISK = Row(
    "disk-error", r" error, dev |-fs error|XFS .*(?:error|shut ?down)|BTRFS .*error", "storage", "exclude-node",
    "a disk or a local file system of this node failed", "Linux: block/blk-core.c",
    "blk_update_request: I/O error, dev nvme0n1, sector 1953525168 op 0x0:(READ)", accuses="reporter",
)  # fmt: skip
KERNEL_ROWS = (
    XID_HARDWARE,
    XID_CONTAINED,
    XID_APPLICATION,
    SXID,
    NIC,
    HUNG,
    MEMORY,
    SERVER,
    DISK,
)

_OF_KIND = {"nic": NIC, "hung-task": HUNG, "nfs": SERVER, "disk": DISK, "file-system": DISK}


def is_of_kernel(line: str) -> bool:
    """Whether *line* may stand in a kernel log, which often holds weeks."""
    return any(mark in line for mark in _MARKS)


def kernel_row(line: str) -> Row | None:
    """The rule for a line of the kernel log, None where it accuses nothing."""
    if not any(sign in line for sign in SIGNS):
        return None
    event = parse_line(message_in(line))
    if event is None:
        return None
    if event.kind == "xid":
        return _xid(event)
    if event.kind == "sxid":
        return None if event.fatal is False else SXID
    if event.kind in {"memory", "machine-check"}:
        return MEMORY if UNCORRECTED.search(line) else None
    row = _OF_KIND.get(event.kind)
    return row if row is not None and re.search(row.pattern, line) else None


def _xid(event: KernelEvent) -> Row | None:
    if event.caused_by is not None:
        # The driver cleans up behind a fault that took the process with it: it was fatal.
        event = msgspec.structs.replace(event, code=event.caused_by, caused_by=None, fatal=True)
    if event.code is None:
        return None
    if event.code == CONTAINED:
        return XID_CONTAINED
    severity = severity_of(event)
    advice = f"Xid {event.code}: {advice_of(event)}"
    if severity >= Severity.DRAIN_WHEN_IDLE:
        return _with(XID_HARDWARE, advice)
    if action_of(event.code) is Action.IGNORE or event.code == CLEANUP:
        return None
    if severity is Severity.OK:
        return _with(XID_APPLICATION, advice)
    return msgspec.structs.replace(
        _with(XID_HARDWARE, advice), retry="same-nodes", weight=1, confidence="low"
    )


def _with(row: Row, advice: str) -> Row:
    return msgspec.structs.replace(row, advice=f"{row.advice} ({advice})")
