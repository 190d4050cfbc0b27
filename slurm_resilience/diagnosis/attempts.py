"""
Where the last attempt begins in a log to which several were appended.

Our own line, or a launcher's banner behind the end of an earlier attempt, tells it for sure. Where
neither stands, what Slurm prints as it ends a job does, if a program begins again behind it: what is
merely a dying program's last words belongs to the attempt that was ended.
"""

import re
from collections.abc import Callable, Iterator

from slurm_resilience.diagnosis.exceptions import is_user_error
from slurm_resilience.diagnosis.lines import clean, goes_on, unprefixed
from slurm_resilience.diagnosis.rules import row_of
from slurm_resilience.diagnosis.traceback import START, tracebacks

SHORT = 5
"""Python finds words of up to so many bytes several times faster than longer ones."""
BANNERS = (b"slurm-resilience: attempt", b"OMP_NUM_THREADS", b"NCCL version", b"GLOBAL_RANK")
BEFORE_BANNER = 64 << 10
BEHIND_END = 64 << 10
WIDEST = 4 << 10
"""Bytes of a line in which Slurm's words for an end are looked for."""
MANY_LINES = 30
MOST_ENDS = 4096
"""Ends of jobs in one block that are looked at, from the last."""
_OURS = re.compile(rb"slurm-resilience: attempt \d+ of job ")
_CANCELLED = b"CANCELLED AT "
_JOB_OVER = re.compile(rb"\*\*\* JOB \S{1,64} [^\n*]{0,256}CANCELLED AT ")
_COMES_AGAIN = re.compile(
    rb"\*\*\* (?:JOB|STEP) \S{1,64} [^\n*]{0,256}CANCELLED AT \S{1,32} DUE TO (?:JOB REQUEUE|PREEMPTION|NODE FAILURE)"
)
"""After these Slurm starts the job anew, into the same file where JobFileAppend=1."""
_ENDED = re.compile(
    rb"\*\*\* JOB \S{1,64} [^\n*]{0,256}CANCELLED"
    rb"|srun: (?:Force Terminated|error: \S{1,256}: tasks? [\d,-]{1,256}: Exited)"
)
_FROM_SLURM = re.compile(rb"(?:srun|slurmstepd\S*|salloc)[:\[]|$")
_TRACED = re.compile(rb"^\++ ", re.MULTILINE)
_LAUNCHED = re.compile(
    rb"^\++ (?:exec )?(?:\S{0,256}/)?(?:srun|torchrun|mpirun|accelerate|deepspeed|python[\d.]*|slurm-resilience)(?:\s|$)",
    re.MULTILINE,
)
"""What `bash -x` shows of a launcher."""
_TOO_LATE = re.compile(
    rb"^srun: [^\n]{0,256}(?:Job is pending execution|Expired or invalid job|already completing)[^\n]*\n?",
    re.MULTILINE,
)
"""What srun says in a script that goes on for a moment though its job is requeued."""
_EXITED = b": Exited with exit code "

Read = Callable[[int, int], bytes]
"""Bytes of the file: from an offset, so many at most."""


def start_in(data: bytes, base: int, head: int, read: Read) -> int | None:
    """
    The byte at which an attempt begins inside *data*, the last one, None where none does.

    *base*: the offset of *data* in the file; *head*: where its first whole line begins.
    """
    found = (*_announced(data, base, head, read), *_behind_an_end(data, base, head, read))
    return max((place for place in found if place > 0), default=None)


def may_hold(data: bytes, word: bytes, head: int) -> bool:
    """Whether *word* may be in *data*: a quick look."""
    return data.find(word[-SHORT:], head) >= 0


def _announced(data: bytes, base: int, head: int, read: Read) -> Iterator[int]:
    for word in BANNERS:
        if not may_hold(data, word, head):
            continue
        place = len(data)
        for _ in range(MANY_LINES):
            place = data.rfind(word, head, place)
            if place < 0:
                break
            line = max(data.rfind(b"\n", 0, place) + 1, head)
            if _OURS.match(data, place):
                yield base + line
                break
            before = read(max(0, base + line - BEFORE_BANNER), min(BEFORE_BANNER, base + line))
            ends = [match.end() for match in _ENDED.finditer(before)]
            if ends:
                after = before.find(b"\n", ends[-1]) + 1
                yield base + line - len(before) + (after or len(before))
                break
            if goes_on(before):
                yield base + line
                break


def _behind_an_end(data: bytes, base: int, head: int, read: Read) -> Iterator[int]:
    """
    Behind a job's end as Slurm tells it, where a program speaks again.

    Each line is looked at once, and of what stands behind an end only what reaches to the next one.
    """
    if not may_hold(data, _CANCELLED, head):
        return
    place, later = len(data), 0
    for _ in range(MOST_ENDS):
        place = data.rfind(_CANCELLED, head, place)
        if place < 0:
            return
        least = max(head, place - WIDEST)
        begin = data.rfind(b"\n", least, place) + 1 or least
        after = data.find(b"\n", place, place + WIDEST) + 1
        told = data[begin : after or place + WIDEST]
        comes_again = _COMES_AGAIN.search(told) is not None
        if after and (comes_again or _JOB_OVER.search(told)):
            behind = data[after : min(later, after + BEHIND_END)] if later else b""
            behind = behind if later else read(base + after, BEHIND_END)
            start = _begins_anew(behind, comes_again=comes_again)
            if start is not None:
                yield base + after + start
                return
            later = begin
        place = begin


def _begins_anew(behind: bytes, *, comes_again: bool) -> int | None:
    """Where a program begins anew in what stands *behind* an end; None: those are last words."""
    lines = behind.split(b"\n")
    if sum(1 for line in lines if not _FROM_SLURM.match(line)) >= MANY_LINES:
        return 0
    if not comes_again:
        return None
    dead = max((late.end() for late in _TOO_LATE.finditer(behind)), default=0)
    if _LAUNCHED.search(behind, dead):
        traced = _TRACED.search(behind, dead)
        return traced.start() if traced else dead
    said = behind[dead:]
    if START.encode() in said and _EXITED in said and _fails_anew(said.split(b"\n")):
        return dead
    return None


def _fails_anew(lines: list[bytes]) -> bool:
    """Whether a task's exit follows an exception that no peer's end and no signal brings about."""
    exits = [number for number, line in enumerate(lines) if _EXITED in line]
    said = [clean(line) for line in lines[: exits[-1]]]
    for raised in tracebacks(said):
        row = row_of(unprefixed(raised.line))
        if is_user_error(raised) or (row is not None and row.role == "cause" and row.weight):
            return True
    return False
