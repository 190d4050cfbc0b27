"""
The last attempt in a log file of any size: the lines that may matter, in bounded memory.

Read from the end in blocks, so that of a file to which many attempts were appended only the last one
is read. Finding a handful of short words in bytes is an order of magnitude faster than looking at
lines, so lines are cut out only around such words; near the end more words count than far from it.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from slurm_resilience.diagnosis.attempts import may_hold, start_in
from slurm_resilience.diagnosis.lines import clean

BLOCK = 4 << 20
NEAR = 32 << 20
"""Bytes before the end that are searched for every word."""
MOST = 4 << 30
"""Bytes before the end that are read at all, of an attempt that is longer."""
LONGEST = 2048
"""Of a line, before and after the word."""
HOT = 2000
"""Hits of one word in one block beyond which only some of the first and last are looked at."""
SOME = 100
MOST_ALIKE = 128
"""Lines that differ in nothing but digits: so many of the first and of the last are kept."""
MOST_SHAPES = 50_000
ENDS = 600
"""Bytes of a long line by which it is known again."""

FAR_WORDS = (b"rror", b"NVRM", b"ELLED", b"xcept", b"chdog", b"oom", b" WARN")
NEAR_WORDS = (
    *FAR_WORDS, b"RROR", b"NET/", b"SXid", b"mlx5", b"Killed", b"of memory", b"emory limit",
    b"ccess fault", b"is lost", b"device handle", b"ailed", b"ignal", b"xitcode", b"xit code",
    b"return code", b"egmentation", b"ore dumped", b"No space",
    b"uota exceeded", b"file handle", b"insufficient", b"mismatch",
    b"lost communication", b"imed out", b"NaN", b"is nan", b"lready in use", b"No route",
    b"unreachable", b"endezvous", b"onnection re", b"onnection closed", b"pyxis",
    b"libfabric", b"State=", b"|TIMEOUT", b"_FAIL", b"OUT_OF_ME", b"PREEMPTED", b"fallen off",
    b"nranks ", b"Broken pipe", b"No CUDA GPUs", b"yet initialized", b"is killed by",
    b"blocked for more", b"Mismatched", b"Duplicate", b"no kernel",
    b"Barrier", b"pair closure", b"EXHAUSTED", b"raining", b"fit` stopped", b"finished: step",
    b"not found", b"such file", b"denied", b"FATAL", b"etries", b"questing", b"t reach",
    b"not responding", b"amdgpu", b"ailure", b"orrupt", b"ypassing", b"nstruction", b"oating point",
    b"erminate called", b"ead-only", b"locks avail",
    b"onnection timed", b" is down", b"endpoint", b"us error", b"borted", b"from_parent",
    b"QUEUED", b"nvlink", b"vailable", b"RESET_", b"require", b"ode 80", b"ode=80", b"nsupported",
    b"A driver", b"were found", b"compatib", b"isaligned", b"shared address", b"shared memory",
    b"llegal", b"nvalid", b"ssert", b"_STATUS_", b"MPS ", b"achine", b"EDAC", b"XFS", b"unge",
    b"can not be", b"nable to", b"requested", b"container_", b"ouldn't", b"squashfuse",
    b"Could not", b"execve", b"forkexec", b"rrno", b"EDQUOT", b"StorageFull", b"ENOSPC", b"EADDR",
    b"(IP:", b"with IP", b"t allocate", b"bad_alloc", b"oo many", b"IncompleteB", b"nexpected",
    b"runcated", b"oss is", b"infinite", b"found Inf", b"at minimum", b"detected", b" execute",
    b"fatal", b"async event", b"provider", b"SIG", b"imeout", b"wrong type", b"tion abort",
    b"barrier", b"ninja: b", b"g extension", b"ared libr", b"new thread", b"missing ranks",
    b"OfflineMode",
)  # fmt: skip
"""Whatever meets a rule holds at least one of these."""
COOLER = {
    b"rror": (
        b"RuntimeError",
        b"OSError",
        b"CUDA error",
        b" ECC ",
        b"slurmstepd",
        b"srun: error",
    ),
    b"ailed": (b"failed (exitcode", b"Failed to"),
}
"""What is looked for instead where a word is everywhere."""
_DIGITS = b"0123456789"
_CODES = re.compile(
    rb"(?:status=|error |Xid \([^)]*\): |[Cc]ode[: =]+|rrno |ignal:? |Num=)-?\d{1,3}\b"
)
"""Numbers that decide what a line means; in others lines may differ and be alike."""


class Hit(NamedTuple):
    """A line that was kept."""

    offset: int
    raw: bytes


class Scan(NamedTuple):
    """What a file gave."""

    begin: int
    """Byte at which the last attempt begins."""
    end: int
    hits: tuple[Hit, ...]
    """By offset."""


class LogFile:
    """One open log file."""

    def __init__(self, descriptor: int, matters: Callable[[str], bool]) -> None:
        """*matters* says of a cleaned line whether to keep it."""
        self._file = descriptor
        self._matters = matters
        self._size = os.fstat(descriptor).st_size
        self._known: dict[bytes, bool] = {}
        self._late: dict[bytes, list[Hit]] = {}
        self._early: dict[bytes, deque[Hit]] = {}

    def scan(self) -> Scan:
        """Read the last attempt."""
        end = stop = self._size
        least = max(0, self._size - MOST)
        begin: int | None = None
        while stop > least and begin is None:
            start = max(least, stop - BLOCK)
            data = self.read(start, stop - start)
            head = _head(data) if start else 0
            is_near = self._size - stop < NEAR
            begin = start_in(data, start, head, self.read)
            self._search(
                data, start, begin - start if begin is not None else head, near=is_near
            )
            stop = start + head if head else start
        hits = sorted(
            {hit for kept in (*self._late.values(), *self._early.values()) for hit in kept}
        )
        return Scan(least if begin is None else begin, end, tuple(hits))

    def read(self, offset: int, size: int) -> bytes:
        """At most *size* bytes from *offset*."""
        return os.pread(self._file, size, offset) if size > 0 else b""

    def _search(self, data: bytes, base: int, head: int, *, near: bool) -> None:
        done: set[int] = set()
        for word in NEAR_WORDS if near else FAR_WORDS:
            for begin, end in _lines_with(data, word, head):
                if begin not in done:
                    done.add(begin)
                    self._keep(data[begin:end], base + begin)

    def _keep(self, raw: bytes, offset: int) -> None:
        ends = raw if len(raw) < ENDS else raw[: ENDS // 2] + raw[-ENDS // 2 :]
        shape = ends.translate(None, _DIGITS) + b"".join(_CODES.findall(raw))
        known = self._known.get(shape)
        if known is None:
            if len(self._known) > MOST_SHAPES:
                self._known.clear()
            known = self._known[shape] = self._matters(clean(raw))
        if known:
            late = self._late.setdefault(shape, [])
            if len(late) < MOST_ALIKE:
                late.append(Hit(offset, raw))
            else:  # blocks come from the end, so what comes last is the earliest
                self._early.setdefault(shape, deque(maxlen=MOST_ALIKE)).append(Hit(offset, raw))


def _head(data: bytes) -> int:
    """Where the first whole line of a block begins; its cut beginning belongs to the block before."""
    place = data.find(b"\n", 0, 1 << 20) + 1
    if place:
        return place
    place = data.find(b"\r", 0, 1 << 20) + 1
    return place or min(LONGEST, len(data) - 1)


def _lines_with(data: bytes, word: bytes, head: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each line that holds *word*, within bounds."""
    count = data.count(word, head) if may_hold(data, word, head) else 0
    if not count:
        return
    if count > HOT:
        for cooler in COOLER.get(word, ()):
            if data.count(cooler, head) <= HOT:
                yield from _lines_with(data, cooler, head)
        yield from _walk(data, word, head, len(data), SOME)
        yield from _walk(data, word, max(head, len(data) - BLOCK // 16), len(data), SOME)
        return
    yield from _walk(data, word, head, len(data), HOT)


def _walk(
    data: bytes, word: bytes, place: int, stop: int, most: int
) -> Iterator[tuple[int, int]]:
    for _ in range(most):
        place = data.find(word, place, stop)
        if place < 0:
            return
        least = max(0, place - LONGEST)
        begin = (
            max(data.rfind(b"\n", least, place), data.rfind(b"\r", least, place)) + 1 or least
        )
        end = _end(data, place)
        yield begin, end
        place = end


def _end(data: bytes, place: int) -> int:
    most = min(len(data), place + LONGEST)
    newline = data.find(b"\n", place, most)
    stop = most if newline < 0 else newline
    back = data.find(b"\r", place, stop)
    return stop if back < 0 else back
