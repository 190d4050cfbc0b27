"""
The node's processes, out of /proc: what of the GPU stack is stuck, how near the limits are.

/proc/PID/cmdline and maps are left alone where they can be: they wait for a process that is stuck.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_STACK = ("nvidia", "nv-", "dcgm")
"""How names of the GPU stack's own processes begin: nvidia-smi, nv-hostengine, …"""
_DEVICES = "/dev/nvidia"
_STATE, _FLAGS, _THREADS = 0, 6, 17
"""Where they stand in /proc/PID/stat, behind the name."""
_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD of linux/sched.h. Those of a driver may wait in D state for work, in good health."""
_IN_DRIVER = ("[nvidia", "[gdrdrv")
"""How /proc/PID/stack names the module that a function is of."""


def read(proc: str) -> dict[str, Any]:
    """As `facts.ProcessFacts`. Raises OSError where /proc cannot be read."""
    stuck: list[dict[str, Any]] = []
    steps, slurmd = 0, False
    for pid in filter(str.isdecimal, os.listdir(proc)):
        try:
            name, state, threads = _stat(f"{proc}/{pid}/stat")
            if name == "slurmstepd":
                steps += _is_step(f"{proc}/{pid}")
            elif name == "slurmd":
                slurmd = True
            if state in {"D", "Z"} or threads > 1:
                stuck += _stuck(f"{proc}/{pid}", int(pid), name, state)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    files, _, files_max = _numbers(f"{proc}/sys/fs/file-nr")
    (threads_max,) = _numbers(f"{proc}/sys/kernel/threads-max")
    (pid_max,) = _numbers(f"{proc}/sys/kernel/pid_max")
    return {
        "stuck": stuck,
        "threads": _threads(proc),
        "threads_max": min(threads_max, pid_max),
        "files": files,
        "files_max": files_max,
        "slurmd": slurmd,
        "steps": steps,
    }


def _stuck(folder: str, pid: int, name: str, state: str) -> Iterator[dict[str, Any]]:
    """Its threads in D state, if it is the GPU stack's; else itself, if it is dead."""
    tasks = os.listdir(f"{folder}/task")
    threads = [thread for thread in tasks if _waits(f"{folder}/task/{thread}/stat")]
    for thread in threads:
        # A dead process shows no open files; its thread that is not dead does.
        task = f"{folder}/task/{thread}"
        if name.startswith(_STACK) or _holds_gpu(task):
            yield _one(task, int(thread), name, "D")
    if state == "Z" and not threads and name.startswith(_STACK):
        yield _one(folder, pid, name, state)


def _waits(path: str) -> bool:
    try:
        return _stat(path)[1] == "D"
    except (FileNotFoundError, ProcessLookupError):
        return False  # threads come and go while the others stay


def _one(folder: str, pid: int, name: str, state: str) -> dict[str, Any]:
    return {
        "pid": pid,
        "name": name,
        "state": state,
        "switches": _switches(f"{folder}/status"),
        "in_driver": _is_in_driver(f"{folder}/stack") if state == "D" else None,
    }


def _stat(path: str) -> tuple[str, str, int]:
    """Name, state (none of the kernel's own threads), number of threads."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    # A name may hold spaces and brackets.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    state = "" if int(fields[_FLAGS]) & _KERNEL_THREAD else fields[_STATE]
    return head.partition("(")[2], state, int(fields[_THREADS])


def _is_step(folder: str) -> bool:
    # `slurmstepd infinity` keeps the cgroup of all steps alive, without any.
    with open(f"{folder}/cmdline", "rb") as file:
        return b"infinity" not in file.read(4096)


def _holds_gpu(folder: str) -> bool:
    try:
        for number in os.listdir(f"{folder}/fd"):
            try:
                if os.readlink(f"{folder}/fd/{number}").startswith(_DEVICES):
                    return True
            except FileNotFoundError:
                continue
    except PermissionError:
        pass  # another user's, and we are not root
    return False


def _switches(path: str) -> int:
    with open(path, encoding="utf-8", errors="replace") as file:
        return sum(
            int(line.partition(":")[2]) for line in file if "voluntary_ctxt_switches" in line
        )


def _is_in_driver(path: str) -> bool | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read()
    except OSError:
        return None  # root's alone, and not in every kernel
    return any(mark in text for mark in _IN_DRIVER)


def _threads(proc: str) -> int:
    with open(f"{proc}/loadavg", encoding="ascii") as file:
        return int(file.read().split()[3].partition("/")[2])


def _numbers(path: str) -> list[int]:
    with open(path, encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
