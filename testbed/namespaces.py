"""System calls that Python 3.10 has no names for: namespaces, mounts, TUN devices."""

import ctypes
import fcntl
import os
import signal
import struct
from pathlib import Path

NEW_MOUNTS = 0x00020000
NEW_CGROUPS = 0x02000000
NEW_UTS = 0x04000000
NEW_IPC = 0x08000000
NEW_PIDS = 0x20000000
NEW_NET = 0x40000000

READ_ONLY = 1
NO_SUID = 2
NO_DEV = 4
NO_EXEC = 8
REMOUNT = 32
BIND = 4096
RECURSIVE = 16384
PRIVATE = 1 << 18

_DETACH = 2
_PR_SET_PDEATHSIG = 1
_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Move this process into fresh namespaces."""
    _checked(_libc.unshare(flags), "unshare")


def die_with_parent() -> None:
    """Let the kernel kill this process the moment its parent is gone."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def fork_init() -> int:
    """
    Fork; the child is process 1 of a new PID namespace. Returns 0 there, its id here.

    When process 1 ends, the kernel kills everything in its namespace.
    """
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare(NEW_PIDS)
        child = os.fork()
        if child:
            _checked(_libc.setns(own, NEW_PIDS), "setns")
        return child
    finally:
        os.close(own)


def mount(
    source: str | Path, target: Path, kind: str = "", flags: int = 0, options: str = ""
) -> None:
    """mount(2)."""
    done = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _checked(done, f"mount {kind or source} at {target}")


def bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    """Show *source* (a file or directory) at *target*, which is there already."""
    mount(source, target, flags=BIND)
    if read_only:
        mount("none", target, flags=BIND | REMOUNT | READ_ONLY)


def enter_root(root: Path) -> None:
    """Make the mount at *root* this namespace's /, and let the old one go."""
    os.chdir(root)
    _checked(_libc.pivot_root(b".", b"."), "pivot_root")
    _checked(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")


def open_tun(name: str) -> int:
    """A new TUN device in this network namespace: a descriptor to packets without a header."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    request = struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(descriptor, _TUNSETIFF, request)
    return descriptor
