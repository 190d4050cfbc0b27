"""One watched path, by statvfs. A hung file server hangs here, so each path has its own child."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any

_ANSWERS = {errno.EIO, errno.ENOTCONN, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.EHOSTDOWN}
"""What a file system that is gone answers; anything else says nothing of it."""


def read(path: str, *, proc: str, enough_gib: int) -> dict[str, Any]:
    """
    As `facts.DiskFacts`. Raises OSError where the path is there and cannot be asked.

    *enough_gib*: more free space is told as this much, so that the answer stays the same.
    """
    try:
        found = os.statvfs(path)
    except FileNotFoundError:
        return {"path": path, "present": False}
    except OSError as error:
        if error.errno in _ANSWERS:
            return {"path": path, "error": error.strerror, "type": _type(path, proc)}
        raise
    return {
        "path": path,
        "mounted": os.path.ismount(path),
        "read_only": bool(found.f_flag & os.ST_RDONLY),
        "type": _type(path, proc),
        # As df counts: what only root may use is not free.
        "used_percent": _share(found.f_blocks - found.f_bfree, found.f_bavail),
        "free_gib": min(found.f_bavail * found.f_frsize >> 30, enough_gib),
        "inodes_used_percent": _share(found.f_files - found.f_ffree, found.f_favail),
    }


def _share(used: int, free: int) -> int | None:
    total = used + free
    return -(-100 * used // total) if total else None


def _type(path: str, proc: str) -> str | None:
    """Of what is mounted there, or highest above it; the last mount of a place hides the others."""
    try:
        with open(f"{proc}/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError:
        return None
    place = os.path.realpath(path)
    best, found = "", None
    for line in lines:
        head, _, tail = line.partition(" - ")
        fields = head.split(" ")
        point = _plain(fields[4]) if len(fields) > 4 else ""  # noqa: PLR2004 - proc_pid_mountinfo(5)
        if len(point) >= len(best) and f"{place}/".startswith(f"{point.rstrip('/')}/"):
            best, found = point, tail.partition(" ")[0]
    return found


def _plain(point: str) -> str:
    for escaped, character in (
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ):
        point = point.replace(escaped, character)
    return point
