"""
Probes that hang where an earlier hook left them.

A child in uninterruptible sleep (a file server that is gone, a dying disk) outlives every kill. Who
asked there again would leave one more with each job, and learn nothing: as long as it sits there,
nothing answers.
"""

from __future__ import annotations

import os
import time

from slurm_resilience.node.state import kept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "hanging"
"""In `paths.state`; a line each: probe, process, its start in ticks since boot, since when."""


def load(state: str, boot: str) -> dict[str, str]:
    """The probes that still hang, and a word for people; the file goes with the last of them."""
    path = f"{state}/{NAME}"
    found = {}
    for line in (kept.of_boot(path, boot) or b"").decode("utf-8", "replace").splitlines():
        probe, pid, start, since = (*line.split("\t"), "", "", "")[:4]
        if start and _start_of(pid) == start:
            found[probe] = f"process {pid} hangs there since {since}"
    if not found and os.path.lexists(path):
        os.unlink(path)  # noqa: PTH108 - pathlib is a long import for a hook
    return found


def save(state: str, boot: str, left: Mapping[str, int]) -> str:
    """Add the processes that were *left* just now, by probe; `name: why` that could not be done."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    started = {probe: (pid, _start_of(str(pid))) for probe, pid in left.items()}
    lines = [
        f"{probe}\t{pid}\t{start}\t{now}" for probe, (pid, start) in started.items() if start
    ]
    earlier = (kept.of_boot(f"{state}/{NAME}", boot) or b"").decode("utf-8", "replace")
    lines += [line for line in earlier.splitlines() if line.partition("\t")[0] not in started]
    return kept.write_of_boot(f"{state}/{NAME}", boot, "\n".join(lines).encode())


def _start_of(pid: str) -> str:
    """When a process began, in ticks since boot; empty where it has ended."""
    try:
        descriptor = os.open(f"/proc/{int(pid)}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        fields = os.read(descriptor, 4096).rpartition(b") ")[2].split()
    except ProcessLookupError:  # it ended just now
        return ""
    finally:
        os.close(descriptor)
    return fields[19].decode() if fields and fields[0] not in {b"Z", b"X"} else ""
