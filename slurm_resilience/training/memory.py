"""Host memory that is left: of the node, and of the job's memory limits, for all ranks that share it."""

import platform
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.training.peers import Failure, Peers

KIB = 1024
GIB = 1 << 30

Left = dict[str, int]
"""
Bytes that can be taken before the kernel has to kill somebody, by what they are taken of: the node,
and each memory cgroup with a limit. All ranks that take of it have the same name for it.
"""


class Need(NamedTuple):
    """What one rank is about to take, and what is left to it."""

    lacking_bytes: int
    left: Left


class Memory:
    """
    What the ranks of this node share.

    Before the first of it is taken all say what they need. Later each looks alone for what it lacks,
    as if those that it shares with lacked as much: a state grows on all ranks alike.
    """

    def __init__(self, peers: Peers, *, root: Path = Path("/")) -> None:
        """*root*: where `proc` and `sys` are."""
        self._peers = peers
        self._root = root
        self._left: Left = {}
        self._sharers: Counter[str] = Counter()
        self._is_agreed = False
        """Whether there was enough for all, once; the same on all ranks."""

    def look(self) -> None:
        """
        Take note of what is left.

        All ranks have to meet between this and `refusal`, so that none has taken of it when another
        looks: it would count that twice.
        """
        self._left = left(self._root)

    def refusal(self, lacking_bytes: int | Failure) -> str:
        """
        Why so many bytes more cannot be taken; empty: they can.

        Every rank has to come here, also with why it does not know. They exchange what they need until
        there was enough for all; only then may this raise, a `CheckpointError` on all of them.
        """
        if not self._is_agreed:
            return self._agreed(lacking_bytes)
        if isinstance(lacking_bytes, Failure):
            return ""
        mine = Need(lacking_bytes, self._left)
        alike = {pool: [mine] * max(1, self._sharers[pool]) for pool in mine.left}
        return next(filter(None, map(_short, alike, alike.values())), "")

    def _agreed(self, lacking_bytes: int | Failure) -> str:
        mine = lacking_bytes
        needs = self._peers.shared(
            mine if isinstance(mine, Failure) else Need(mine, self._left)
        )
        self._sharers = Counter(pool for need in needs for pool in need.left)
        refused = refusals(needs)
        self._is_agreed = not any(refused)
        return refused[self._peers.rank]


def refusals(needs: Sequence[Need]) -> list[str]:
    """By rank, why it cannot take what it lacks; empty: it can, and so can all it shares with."""
    by_pool: dict[str, list[Need]] = {}
    for need in needs:
        for pool in need.left:
            by_pool.setdefault(pool, []).append(need)
    short = {pool: _short(pool, sharers) for pool, sharers in by_pool.items()}
    return [
        next((short[pool] for pool in need.left if need.lacking_bytes and short[pool]), "")
        for need in needs
    ]


def _short(pool: str, sharers: Sequence[Need]) -> str:
    needed = sum(need.lacking_bytes for need in sharers)
    available = min(need.left[pool] for need in sharers)
    if needed <= available:
        return ""
    return (
        f"{_spelled(needed)} are needed on this node ({len(sharers)} ranks), "
        f"{_spelled(available)} are left to this job"
    )


def _spelled(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes >> 20} MiB"


def left(root: Path = Path("/")) -> Left:
    """What is left to this process; what cannot be read does not count."""
    kernel = _kernel(root)
    return {**_of_node(root, kernel), **_of_cgroups(root, kernel)}


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


def _kernel(root: Path) -> str:
    """A name for what runs on the node: containers give it other names, and take of the same memory."""
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return platform.node()


def _of_node(root: Path, kernel: str) -> Left:
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    words = next((line.split() for line in lines if line.startswith("MemAvailable:")), None)
    return {kernel: int(words[1]) * KIB} if words else {}


def _of_cgroups(root: Path, kernel: str) -> Left:
    """Of each cgroup that this process is in, from its own up to the root."""
    try:
        text = (root / "proc/self/cgroup").read_text(errors="surrogateescape")
    except OSError:
        return {}
    found: Left = {}
    for membership in text.splitlines():
        _, controllers, path = membership.split(":", 2)
        if controllers == "":
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        own = top / path.lstrip("/")
        for directory in (own, *own.parents):
            found |= _of_cgroup(directory, kernel, *names)
            if directory == top:
                break
    return found


def _of_cgroup(directory: Path, kernel: str, limit: str, current: str) -> Left:
    try:
        texts = [(directory / name).read_text() for name in (limit, current, "memory.stat")]
        status = directory.stat()  # its path is another in a container
    except OSError:  # a container shows only a part of them
        return {}
    number = left_bytes(*texts)
    return {} if number is None else {f"{kernel} {status.st_dev} {status.st_ino}": number}
