"""Host memory that is left to this process: of the node, and of the job's memory limit."""

from pathlib import Path

MEMINFO = Path("/proc/meminfo")
MINE = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")
KIB = 1024


def available_bytes() -> int | None:
    """Bytes that can be taken before the kernel has to kill somebody; None: not known."""
    known = [*_of_node(), *_of_cgroups()]
    return min(known, default=None)


def left_bytes(limit: str, current: str, stat: str) -> int | None:
    """
    Bytes left in a memory cgroup, from the texts of its files; None where it has no limit.

    File pages that are not in use count as left: the kernel drops them first.
    """
    if not limit.strip().isdecimal() or not current.strip().isdecimal():
        return None
    values = dict(line.split() for line in stat.splitlines() if len(line.split()) == 2)  # noqa: PLR2004 - a name and a number
    droppable = values.get("total_inactive_file", values.get("inactive_file", "0"))
    return max(0, int(limit) - int(current) + int(droppable))


def _of_node() -> list[int]:
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    return [int(line.split()[1]) * KIB for line in lines if line.startswith("MemAvailable:")]


def _of_cgroups() -> list[int]:
    """Of each cgroup that this process is in, from its own up to the root."""
    try:
        memberships = MINE.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    left = []
    for membership in memberships:
        _, controllers, path = membership.split(":", 2)
        if controllers == "":
            top, names = CGROUPS, ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            top = CGROUPS / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        own = top / path.lstrip("/")
        for directory in (own, *own.parents):
            left += _of_cgroup(directory, *names)
            if directory == top:
                break
    return left


def _of_cgroup(directory: Path, limit: str, current: str) -> list[int]:
    try:
        texts = [(directory / name).read_text() for name in (limit, current, "memory.stat")]
    except OSError:  # a container shows only a part of them
        return []
    found = left_bytes(*texts)
    return [] if found is None else [found]
