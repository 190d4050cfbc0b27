"""
Small files that a node keeps for itself between hooks. Only its own are believed.

They are replaced whole. Most go without fsync: bound to the boot they were written in, what a
power loss leaves of them is never read. What has to outlast a boot is `lasting`.
"""

from __future__ import annotations

import os
import stat

MOST_BYTES = 16 << 20


def read(path: str) -> bytes | None:
    """The content of *path*; None where it is absent, foreign, or others could have written it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        own = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not (own and stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES):
            return None
        return os.read(descriptor, MOST_BYTES)
    finally:
        os.close(descriptor)


def write(path: str, content: bytes, *, lasting: bool = False) -> str:
    """Replace *path*; `name: why` that could not be done, empty where it was."""
    fresh = f"{path}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        if os.path.lexists(fresh):
            os.unlink(fresh)  # of a hook with the same number that was killed here
        descriptor = os.open(fresh, flags, 0o600)
        try:
            if os.write(descriptor, content) < len(content):
                raise OSError(28, "No space left on device")  # errno is one more import
            if lasting:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(fresh, path)
        if lasting:
            _sync(os.path.dirname(path))
    except OSError as error:
        if os.path.exists(fresh):
            os.unlink(fresh)
        return f"{os.path.basename(path)}: {error.strerror or error}"
    return ""


def of_boot(path: str, boot: str) -> bytes | None:
    """What was left at *path* in this *boot*; None where that is nothing, or none to believe."""
    head, _, content = (read(path) or b"").partition(b"\n")
    return content if boot and head == boot.encode() else None


def write_of_boot(path: str, boot: str, content: bytes) -> str:
    """As `write`, for `of_boot`."""
    return write(path, boot.encode() + b"\n" + content)


def is_trusted(path: str) -> bool | None:
    """Whether only root, or whoever asks, could have made the file *path*; None: there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return is_own(found) and stat.S_ISREG(found.st_mode)


def is_own(found: os.stat_result) -> bool:
    """Whether it is root's, or of whoever asks, and nobody else may write it."""
    own = found.st_uid in {0, os.geteuid()}
    return own and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _sync(folder: str) -> None:
    """Make a new name survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def boot_id(proc: str) -> str:
    """The kernel's id of this boot; empty where it cannot be read."""
    try:
        descriptor = os.open(f"{proc}/sys/kernel/random/boot_id", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 64).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
