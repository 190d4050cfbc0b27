"""
A disk that fails at a chosen call: a library that a process loads first.

`build` compiles it, `environment` makes a process load it, `Fault.set` chooses, from inside or outside
of that process, which call fails next and how. Nothing in the process knows of it.
"""

import enum
import errno
import mmap
import os
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("disk_faults.c")
LIBRARY = "disk_faults.so"
NEVER = -1
_PLAN = struct.Struct("<qqiiii")


class Kind(enum.IntFlag):
    """Which calls count."""

    READS = 1
    CHANGES = 2
    """Writes, fsyncs, names that are made, moved or deleted."""
    RENAMES = 4


class How(enum.IntEnum):
    """What happens at the chosen call."""

    ONCE = 0
    FROM_NOW_ON = 1
    HALF = 2
    """Half of the bytes are written or read, without an error; as ONCE where there are no bytes."""
    DONE_YET_REFUSED = 3
    """A rename happens and is reported as failed; as ONCE with other calls."""


class Fault(NamedTuple):
    """One fault."""

    error: int
    how: How = How.ONCE
    kinds: Kind = Kind.CHANGES

    def __str__(self) -> str:
        return f"{errno.errorcode[self.error]} {self.how.name} {self.kinds.name}"


class Plan:
    """The file in which a process that loaded the library looks at each call."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(_PLAN.pack(NEVER, 0, 0, 0, 0, 0))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _PLAN.size)

    def set(self, fault: Fault, number: int) -> None:
        """Let the call *number* (from 1) from now on fail."""
        # No kind at first: a call in between sees no half of a plan.
        self._shared[:] = _PLAN.pack(NEVER, 0, 0, 0, 0, 0)
        self._shared[:] = _PLAN.pack(number, 0, fault.error, fault.how, fault.kinds, 0)

    def clear(self) -> bool:
        """Let nothing fail; whether the chosen call came."""
        fired = _PLAN.unpack(self._shared[:])[1]
        self._shared[:] = _PLAN.pack(NEVER, 0, 0, 0, 0, 0)
        return bool(fired)


def build(folder: Path) -> Path:
    """The library, compiled into *folder*."""
    library = folder / LIBRARY
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True
    )
    return library


def environment(library: Path, plan: Path, under: Path) -> dict[str, str]:
    """For a process in which calls on what lies under *under* may fail."""
    return {
        **os.environ,
        "LD_PRELOAD": str(library),
        "DISK_FAULTS": str(plan),
        "DISK_FAULTS_UNDER": f"{under}/",
    }
