"""
Processes that an ended job left on its GPUs.

Only this job's: the job's user, and the job's id in the process's environment or cgroup. On a
shared node another job of the same user computes right beside it.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.scope import Scope
from slurm_resilience.node.voice import say

PATIENCE_S = 2.0
"""What a process gets to die of SIGKILL; one in D state never does."""
_GLANCE_S = 0.05


class Ended(NamedTuple):
    """The job whose processes should be gone."""

    job: str
    user_id: int
    proc: str
    """Where /proc is."""


def end_leftovers(
    facts: NodeFacts, gpus: Scope, ended: Ended, *, observe: bool
) -> tuple[Finding, ...]:
    """
    Kill what *ended* left on *gpus*; a finding for each process that does not go.

    Nothing where it is not certain which GPUs those are. *observe*: only say what would be killed.
    """
    held, is_certain = gpus.among(facts.gpus or ())
    found = {
        process.pid: f"gpu{gpu.index}"
        for gpu in facts.gpus or ()
        if gpu.index in held
        for process in gpu.processes or ()
        if belongs(process.pid, ended)
    }
    if found and not is_certain:
        names = ", ".join(map(str, sorted(found)))
        say(
            f"epilog: job {ended.job} left processes {names}, and which GPUs it had cannot be told:"
            " not killed"
        )
        return ()
    for pid, gpu in found.items():
        done = "would be killed" if observe else "killed"
        say(f"epilog: job {ended.job} left process {pid} on {gpu}: {done}")
        if not observe:
            _kill(pid)
    staying = set() if observe else set(_staying(found, ended))
    return tuple(
        Finding(
            "leftover-process", Severity.DRAIN_WHEN_IDLE, gpu,
            f"process {pid} of job {ended.job} cannot be killed",
        )
        for pid, gpu in found.items()
        if pid in staying
    )  # fmt: skip


def belongs(pid: int, ended: Ended) -> bool:
    """Whether a process is that job's; False where it is gone or cannot be looked at."""
    place = f"{ended.proc}/{pid}"
    try:
        status = _read(f"{place}/status")
        owner = next(line for line in status.split(b"\n") if line.startswith(b"Uid:"))
        if int(owner.split()[1]) != ended.user_id:
            return False
        variables = _read(f"{place}/environ").split(b"\0")
        groups = _read(f"{place}/cgroup").replace(b"\n", b"/").split(b"/")
    except (OSError, StopIteration):
        return False
    job = ended.job
    return f"SLURM_JOB_ID={job}".encode() in variables or f"job_{job}".encode() in groups


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it went by itself
        os.kill(pid, signal.SIGKILL)


def _staying(pids: Iterable[int], ended: Ended) -> Iterator[int]:
    deadline = time.monotonic() + PATIENCE_S
    for pid in pids:
        while stays := belongs(pid, ended) and not _is_zombie(ended.proc, pid):
            if time.monotonic() >= deadline:
                break
            time.sleep(_GLANCE_S)
        if stays:
            yield pid


def _is_zombie(proc: str, pid: int) -> bool:
    try:
        return b"\nState:\tZ" in _read(f"{proc}/{pid}/status")
    except OSError:
        return True


def _read(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(1 << 20)
