"""Lines of disks, file systems and file servers."""

import re

from slurm_resilience.node.kernel_lines.event import KernelEvent

_NVME = re.compile(r"nvme (?P<device>nvme\d+): (?P<rest>.*)")
_NVME_MESSAGES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "gone",
        re.compile(
            r"Removing after probe failure|Disabling device after reset failure"
            r"|Device not ready; aborting"
        ),
    ),
    ("reset", re.compile(r"controller is down; will reset")),
    ("timeout", re.compile(r"I/O (?:tag )?\d+ [^\[\]]{0,80}?\btimeout")),
)
_BLOCK = re.compile(
    r"(?:(?:blk_update_request|print_req_error|end_request): )?"
    r"(?P<text>(?:critical (?P<word>medium|target) error|I/O error), dev (?P<device>[\w!.-]{1,64}),"
    r" (?:sector|logical block) \d+.*)"
)
_NO_DISK = ("sr", "fd", "loop", "ram", "zram", "nbd", "scd")
"""Drives without a medium, and images in files: what they say is no fault of the node."""

_FILE_SYSTEM = re.compile(
    r"(?:EXT[234]-fs|XFS|BTRFS|F2FS-fs)(?::? (?P<word>error|warning|critical|info))?:? "
    r"\((?:device )?(?P<device>[\w!.-]{1,64})(?:: state \w{1,16})?\):? ?(?P<rest>.*)"
)
_FILE_SYSTEM_MESSAGES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("not-mounted", re.compile(r"open_ctree failed|mount failed|SB validate failed")),
    (
        "read-only",
        re.compile(r"Remounting filesystem read-only|forced readonly", re.IGNORECASE),
    ),
    (
        "shut-down",
        re.compile(
            r"(?:[A-Z][\w/ -]{9,60}\(0x[0-9a-f]+\) detected at .{1,160}|I/O Error Detected)[.,] *"
            r"Shutting down filesystem|Filesystem has been shut down|xfs_do_force_shutdown"
        ),
    ),
    (
        "error",
        re.compile(
            r"Corruption (?:of|detected|warning)|metadata I/O error|log I/O error"
            r"|I/O error while writing superblock|Metadata (?:CRC|corruption)"
        ),
    ),
)
_NO_PATH = re.compile(r"block (?P<device>nvme\d+\w*): no available path - failing I/O")
_ARRAY = re.compile(r"md/raid\d+:?(?P<device>md\w*): Disk failure on (?P<disk>\w+)(?P<rest>.*)")
_RECLAIM = re.compile(r"(?:NFS: )?(?P<text>nfs4_reclaim_open_state: Lock reclaim failed)")
_NFS = re.compile(r"nfs: server (?P<server>[\w.:%-]{1,255}) (?P<what>not responding\b.*|OK\b)")


def nvme(line: str) -> KernelEvent | None:
    """A controller that stumbles or is gone."""
    found = _NVME.match(line)
    what = found and next(
        (what for what, pattern in _NVME_MESSAGES if pattern.match(found["rest"])), None
    )
    if not found or not what:
        return None
    return KernelEvent("disk", found["rest"].strip(), device=found["device"], what=what)


def block(line: str) -> KernelEvent | None:
    """What a disk did not do as it was asked."""
    found = _BLOCK.match(line)
    if not found or found["device"].rstrip("0123456789") in _NO_DISK:
        return None
    what = found["word"] or "io"
    return KernelEvent("disk", found["text"].strip(), device=found["device"], what=what)


def no_path(line: str) -> KernelEvent | None:
    """A disk whose last controller is gone."""
    found = _NO_PATH.match(line)
    return found and KernelEvent("disk", found[0], device=found["device"], what="gone")


def array(line: str) -> KernelEvent | None:
    """An array that lost a disk: one that goes on without it, or one that cannot."""
    found = _ARRAY.match(line)
    if not found:
        return None
    what = "array-failed" if "failing array" in found["rest"] else "array-degraded"
    return KernelEvent("disk", found[0].strip(), device=found["device"], what=what)


def file_system(line: str) -> KernelEvent | None:
    """A file system that found itself damaged, gave up, or could not be mounted."""
    found = _FILE_SYSTEM.match(line)
    if not found:
        return None
    messages = (what for what, pattern in _FILE_SYSTEM_MESSAGES if pattern.match(found["rest"]))
    what = next(messages, "error" if found["word"] in {"error", "critical"} else None)
    if not what or found["device"].rstrip("0123456789") in _NO_DISK:
        return None
    return KernelEvent("file-system", found[0].strip(), device=found["device"], what=what)


def nfs_locks(line: str) -> KernelEvent | None:
    """Locks that a file server did not give back after its restart."""
    found = _RECLAIM.match(line)
    return found and KernelEvent("nfs", found["text"], what="locks-lost")


def nfs(line: str) -> KernelEvent | None:
    """A file server that went silent, or came back."""
    found = _NFS.match(line)
    if not found:
        return None
    what = "answers" if found["what"] == "OK" else "silent"
    return KernelEvent("nfs", found[0].strip(), device=found["server"], what=what)
