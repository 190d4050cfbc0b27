"""One watched path, by statvfs. A hung file server hangs here, so each path has its own child."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any

_ANSWERS = {errno.EIO, errno.ENOTCONN, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.EHOSTDOWN}
"""What a file system that is gone answers; anything else says nothing of it."""


def read(path: str) -> dict[str, Any]:
    """As `facts.DiskFacts`. Raises OSError where the path is there and cannot be asked."""
    try:
        found = os.statvfs(path)
    except FileNotFoundError:
        return {"path": path, "present": False}
    except OSError as error:
        if error.errno in _ANSWERS:
            return {"path": path, "error": error.strerror}
        raise
    return {
        "path": path,
        "mounted": os.path.ismount(path),
        "read_only": bool(found.f_flag & os.ST_RDONLY),
        # As df counts: what only root may use is not free.
        "used_percent": _share(found.f_blocks - found.f_bfree, found.f_bavail),
        "inodes_used_percent": _share(found.f_files - found.f_ffree, found.f_favail),
    }


def _share(used: int, free: int) -> int | None:
    total = used + free
    return -(-100 * used // total) if total else None
