"""Lines of processes: stuck in the kernel, or killed for want of memory."""

import re

from slurm_resilience.node.kernel_lines.event import KernelEvent

_HUNG = re.compile(r"task (?P<name>.{1,64}):\d{1,10} blocked for more than \d+ seconds")
_KILLED = re.compile(r"[Oo]ut of memory: Killed? process \d+ \((?P<name>.{0,64}?)\)")


def hung_task(line: str) -> KernelEvent | None:
    """In D state for longer than `kernel.hung_task_timeout_secs`."""
    task = _HUNG.search(line)
    return task and KernelEvent("hung-task", task[0], process=task["name"])


def oom_kill(line: str) -> KernelEvent | None:
    """The kernel's answer to want of memory, on the node or in a job's cgroup."""
    task = _KILLED.search(line)
    return task and KernelEvent("oom-kill", task[0], process=task["name"])
