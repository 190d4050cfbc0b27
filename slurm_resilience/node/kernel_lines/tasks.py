"""Lines of processes: stuck in the kernel, or killed for want of memory."""

import re

from slurm_resilience.node.kernel_lines.event import NAME, KernelEvent

_HUNG = re.compile(
    rf"INFO: (?P<text>task (?P<name>{NAME}):\d{{1,10}} blocked for more than \d+ seconds)",
    re.DOTALL,
)
_KILLED = re.compile(
    rf"(?:Memory cgroup out|Out) of memory: Killed? process \d+ \((?P<name>{NAME})\)", re.DOTALL
)


def hung_task(line: str) -> KernelEvent | None:
    """In D state for longer than `kernel.hung_task_timeout_secs`."""
    task = _HUNG.match(line)
    return task and KernelEvent("hung-task", task["text"], process=task["name"])


def oom_kill(line: str) -> KernelEvent | None:
    """The kernel's answer to want of memory, on the node or in a job's cgroup."""
    task = _KILLED.match(line)
    return task and KernelEvent("oom-kill", task[0], process=task["name"])
