"""Processes of one node, from /proc: what a rank's process does, and the end of a whole tree."""

import contextlib
import ctypes
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY_S = 0.05
UNKILLABLE_S = 5.0
"""A process that KILL does not end in this time waits in the kernel: nobody can end it."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One line of /proc/<pid>/stat."""

    pid: int
    parent: int
    state: str
    """R, S, D, T, t, Z, …"""
    cpu_s: float


def read_process(pid: int, proc: Path = Path("/proc")) -> Process | None:
    """The process, None where there is none (any more)."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command name may hold spaces and brackets; it ends at the last bracket.
    fields = text[text.rindex(")") + 2 :].split()
    return Process(
        pid, int(fields[1]), fields[0], (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    )


def descendants(root: int, proc: Path = Path("/proc")) -> list[Process]:
    """Every living process under *root*, whatever its session; zombies are left out."""
    children: dict[int, list[Process]] = defaultdict(list)
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            process = read_process(int(entry.name), proc)
            if process:
                children[process.parent].append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        for process in children[waiting.pop()]:
            waiting.append(process.pid)
            if process.state not in "ZX":
                found.append(process)
    return found


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies: none gets away."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_tree(is_patient: Callable[[], bool], *, spare: Iterable[int] = ()) -> list[Process]:
    """
    End every descendant of this process except *spare*: TERM while *is_patient*, then KILL.

    Returns what even KILL did not end. Stopped processes go too. Call `adopt_orphans` first, or
    a child of a killed parent is not found. Zombies are left to who waits for them.
    """
    spared = frozenset(spare)
    asked: set[int] = set()
    killed_at: float | None = None
    while left := {
        each.pid: each for each in descendants(os.getpid()) if each.pid not in spared
    }:
        if killed_at is None and is_patient():
            send(left.keys() - asked, signal.SIGTERM)
            asked |= left.keys()
        else:
            killed_at = killed_at or time.monotonic()
            send(left, signal.SIGKILL)
            if time.monotonic() - killed_at > UNKILLABLE_S:
                return list(left.values())
        time.sleep(LOOK_EVERY_S)
    return []


def patience(seconds: float) -> Callable[[], bool]:
    """True for so long from now."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() < until


def send(pids: Iterable[int], signum: signal.Signals) -> None:
    """Signal processes, some of which may be gone by now."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signum)


def shell_status(code: int) -> int:
    """Python's exit code as a shell tells it: 128 + signal."""
    return code if code >= 0 else 128 - code
