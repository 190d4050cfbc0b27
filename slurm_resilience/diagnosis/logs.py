"""Log files on disk -> what `policy` judges."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median

from slurm_resilience.diagnosis.facts import Left, Record, Said
from slurm_resilience.diagnosis.lines import MOVES, clean, goes_on, seconds_of, unprefixed
from slurm_resilience.diagnosis.log_file import Hit, LogFile, Scan
from slurm_resilience.diagnosis.policy import BEFORE, matters
from slurm_resilience.diagnosis.rules import row_of
from slurm_resilience.diagnosis.traceback import is_source
from slurm_resilience.errors import UsageError

COUNTED = 1 << 30
"""Bytes in front of the last attempt that are still read for the sake of line numbers."""
LOOKED_AT = 300
"""Lines of one file, of the first and of the last, that are looked at closely."""
AROUND = 16 << 10
QUOTED = 4 << 10
"""Bytes before a line in which a traceback's frame may stand that quotes it."""
AFTER = 64 << 10
STAMPED = 4 << 10
TAIL = 512 << 10
SLOWER = 5.0
"""Times the usual pace: the last steps were slow (30 ms to over 400 ms was one line's failure)."""
FEWEST = 4
SLOW_S = 60.0
_MEMBER = re.compile(r"/attempt_\d+/(\d+)/[^/]+$")
"""Where torchrun's `--log-dir` keeps what a local rank prints."""


def read_left(
    files: Iterable[Path],
    *,
    record: Record | None = None,
    domains: dict[str, str] | None = None,
) -> Left:
    """Everything that *files* say; `UsageError` names one that cannot be read."""
    said: list[Said] = []
    slowed: Said | None = None
    for path in files:
        found, slow = _read(path)
        said += found
        slowed = slowed or slow
    return Left(tuple(said), record, slowed=slowed, domains=domains or {})


def _read(path: Path) -> tuple[list[Said], Said | None]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}; give a log file or a folder of them"
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UsageError(f"{path}: not a plain file; give a log file or a folder of them")
        log = LogFile(descriptor, matters)
        scan = log.scan()
        return list(_said(path, log, scan)), _slowed(path, log, scan)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _said(path: Path, log: LogFile, scan: Scan) -> Iterator[Said]:
    numbers = _Numbers(log, scan)
    member = _MEMBER.search(str(path))
    local = int(member[1]) if member else None
    last = len(scan.hits) - LOOKED_AT
    for index, hit in enumerate(scan.hits):
        closely = index < LOOKED_AT or index >= last
        text = clean(hit.raw)
        row = row_of(text)
        quotes = not (row and row.is_source) and unprefixed(text)[:1].isspace()
        if quotes and is_source(text, _lines(log, scan, hit, QUOTED)):
            continue
        yield Said(
            text,
            str(path),
            numbers.at(hit.offset),
            hit.offset,
            seconds_of(text) or (_stamp(log, scan, hit) if closely else None),
            survived=closely
            and (row is None or row.role in {"cause", "symptom", "fallout"})
            and _went_on(log, scan, hit),
            before=_before(log, scan, hit)
            if closely and (row is None or row.accuses == "named")
            else (),
            local_rank=local,
        )


class _Numbers:
    """Line numbers, counted forward and each byte once."""

    def __init__(self, log: LogFile, scan: Scan) -> None:
        self._log = log
        self._at = 0 if scan.begin <= COUNTED else None
        self._lines = 1

    def at(self, offset: int) -> int | None:
        """The line of the byte at *offset*, which must not fall back; None where nobody counts."""
        if self._at is None:
            return None
        while self._at < offset:
            data = self._log.read(self._at, min(offset - self._at, 4 << 20))
            if not data:
                break
            self._lines += data.count(b"\n")
            self._at += len(data)
        return self._lines


def _stamp(log: LogFile, scan: Scan, hit: Hit) -> float | None:
    start = max(scan.begin, hit.offset - STAMPED)
    for line in reversed(log.read(start, hit.offset - start).splitlines()[-40:]):
        seconds = seconds_of(line.decode("utf-8", "replace"))
        if seconds is not None:
            return seconds
    return None


def _went_on(log: LogFile, scan: Scan, hit: Hit) -> bool:
    start = hit.offset + len(hit.raw)
    data = log.read(start, min(AFTER, scan.end - start))
    return goes_on(data)


def _before(log: LogFile, scan: Scan, hit: Hit) -> tuple[str, ...]:
    return _lines(log, scan, hit, AROUND)


def _lines(log: LogFile, scan: Scan, hit: Hit, most: int) -> tuple[str, ...]:
    """The lines in the *most* bytes before *hit*, oldest first."""
    start = max(scan.begin, hit.offset - most)
    lines = re.split(rb"\r\n|[\r\n]", log.read(start, hit.offset - start))
    return tuple(clean(line) for line in lines[-BEFORE - 1 : -1])


def _slowed(path: Path, log: LogFile, scan: Scan) -> Said | None:
    """A progress line near the end that came several times later than lines usually do."""
    start = max(scan.begin, scan.end - TAIL)
    moves: list[tuple[float, int, bytes]] = []
    offset = start
    for raw in log.read(start, scan.end - start).split(b"\n"):
        if len(raw) <= 1024 and MOVES.search(raw):  # noqa: PLR2004 - longer ones are no progress
            at = seconds_of(raw.decode("utf-8", "replace"))
            if at is not None:
                moves.append((at, offset, raw))
        offset += len(raw) + 1
    gaps = [after[0] - before[0] for before, after in pairwise(moves)]
    if len(gaps) < FEWEST - 1:
        return None
    usual = median(gaps)
    if gaps[-1] > max(SLOW_S, SLOWER * usual) and usual > 0:
        at, place, raw = moves[-1]
        text = f"{clean(raw).strip()} (came {gaps[-1]:.0f} s after the one before, usually {usual:.0f} s)"
        return Said(text, str(path), _Numbers(log, scan).at(place), place, at)
    return None
