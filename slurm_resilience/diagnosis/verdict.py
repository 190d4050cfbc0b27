"""
What ended an attempt, from the text and the exit codes of its nodes.

Rows that name a fault come first, then an exception of the user's own code, then what exit
codes tell, then fallout: what ranks see when a peer dies. Where nothing decides, it says so.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from slurm_resilience.diagnosis.facts import NodeEnd, Verdict
from slurm_resilience.diagnosis.rules import (
    MISUSE,
    MISUSED,
    ROWS,
    STATUSES,
    SURVIVED,
    TORCHRUN_END,
    TORCHRUN_LOG,
    TORCHRUN_STATUS,
    UNKNOWN,
    Row,
)
from slurm_resilience.diagnosis.traceback import PREFIX, Raised, tracebacks
from slurm_resilience.incident import Suspect

RANK = re.compile(r"\[rank(\d+)\]|\[Rank (\d+)\]")
USER_EXCEPTIONS = frozenset({
    "ArithmeticError", "AssertionError", "AttributeError", "FileNotFoundError", "ImportError",
    "IndentationError", "IndexError", "IsADirectoryError", "KeyError", "LookupError",
    "ModuleNotFoundError", "NameError", "NotADirectoryError", "NotImplementedError",
    "PermissionError", "RecursionError", "SyntaxError", "TypeError", "UnboundLocalError",
    "UnicodeDecodeError", "UsageError", "ConfigError", "ValueError", "ZeroDivisionError",
})  # fmt: skip
"""Deterministic enough that the next attempt would end the same way."""
MOST_EVIDENCE = 10
LETTERS = re.compile(r"[^\W\d_]{2}")
SHAPES = re.compile(
    r"shapes? .*cannot be multiplied|size mismatch|must match the size|shape '\["
)
"""torch raises plain RuntimeError for these."""


class _Match(NamedTuple):
    row: Row
    node: str | None
    line: str


def diagnose(ends: Sequence[NodeEnd], launcher: Sequence[str] = ()) -> Verdict:
    """
    The verdict on an attempt that ended by itself.

    *ends* in the order in which the nodes ended; *launcher*: last lines of srun, which name no
    node that one may trust.
    """
    lines = [(end.node, line) for end in ends for line in _text(end)]
    matches = list(_matches([*lines, *((None, line) for line in launcher)]))
    causes = [match for match in matches if not match.row.fallout]
    if causes:
        return msgspec.structs.replace(_verdict(causes), is_clear=True)
    misused = next(_misuses(ends), None)
    if misused:
        return msgspec.structs.replace(_verdict([misused]), is_clear=True)
    for end in ends:
        for raised in tracebacks(_text(end)):
            if _is_user_error(raised):
                return _user_error(raised, end.node)
    by_status = list(_statuses(ends))
    return _verdict(
        by_status or matches or [_Match(UNKNOWN, None, _last_words(ends, launcher))]
    )


def _text(end: NodeEnd) -> list[str]:
    """All lines of a node, what is most likely to hold the cause first."""
    errors = sorted(end.errors, key=lambda error: error.at)
    told = [line for error in errors for line in error.message.splitlines()]
    return [line for line in (*told, *end.stderr, *end.stdout) if not SURVIVED.search(line)]


def _matches(lines: Sequence[tuple[str | None, str]]) -> Iterator[_Match]:
    for row in ROWS:
        pattern = re.compile(row.pattern)
        for node, line in lines:
            if pattern.search(line):
                yield _Match(row, node, line.strip())


def _statuses(ends: Sequence[NodeEnd]) -> Iterator[_Match]:
    """torchrun tells a rank's end in its log and itself ends with 1."""
    for end in ends:
        for line in end.stderr:
            found = TORCHRUN_STATUS.search(line)
            row = STATUSES.get(128 - int(found.group(1))) if found else None
            if row:
                yield _Match(row, end.node, line.strip())
        if end.status in STATUSES:
            yield _Match(STATUSES[end.status], end.node, f"{end.node}: status {end.status}")


def _misuses(ends: Sequence[NodeEnd]) -> Iterator[_Match]:
    pattern = re.compile(MISUSED.pattern)
    for end in ends:
        if MISUSE in _codes(end):
            for line in end.stderr:
                said = PREFIX.sub("", line)
                if pattern.search(said):
                    yield _Match(MISUSED, end.node, said.strip())


def _codes(end: NodeEnd) -> Iterator[int]:
    """Statuses of a node's command and, under torchrun, of its ranks."""
    if end.status is not None:
        yield end.status
    for line in end.stderr:
        found = TORCHRUN_STATUS.search(line)
        if found:
            yield int(found.group(1))


def _is_user_error(raised: Raised) -> bool:
    if raised.name in {"ChildFailedError", "KeyboardInterrupt", "SignalException"}:
        return False
    if any(re.search(row.pattern, raised.line) for row in ROWS):
        return False
    return (
        raised.by_user
        or raised.name in USER_EXCEPTIONS
        or SHAPES.search(raised.line) is not None
    )


def _user_error(raised: Raised, node: str) -> Verdict:
    where = f" at {raised.frame}" if raised.frame else ""
    return Verdict(
        "user-error",
        "user-error",
        f"the program raised {raised.line}{where}; a retry would end the same way",
        "stop",
        evidence=(f"{node}: {raised.line}",),
        is_clear=True,
    )


def _verdict(matches: Sequence[_Match]) -> Verdict:
    first = matches[0]
    row = first.row
    same = [match for match in matches if match.row is row]
    suspects: dict[str, Suspect] = {}
    if row.retry == "exclude-node":
        for match in same:
            if match.node:
                suspects.setdefault(
                    match.node, Suspect(match.node, why=match.line, rank=_rank(match.line))
                )
    told = dict.fromkeys(match.line for match in [*same, *matches])
    return Verdict(
        row.class_,
        row.id,
        f"{row.advice}: {first.line}" if first.line else row.advice,
        row.retry if suspects or row.retry != "exclude-node" else "same-nodes",
        tuple(suspects.values()),
        tuple(filter(None, told))[:MOST_EVIDENCE],
    )


def _rank(line: str) -> int | None:
    found = RANK.search(line)
    return int(found.group(1) or found.group(2)) if found else None


def _last_words(ends: Sequence[NodeEnd], launcher: Sequence[str]) -> str:
    """The last line with words of the node that failed first, else that it said nothing."""
    failed = [end for end in ends if end.status] or ends
    for end in failed:
        words = [*_words(end.stdout), *_words(end.stderr)]
        if words:
            return f"{end.node}: {words[-1]}"
    for end in failed:
        for status in sorted(_codes(end), reverse=True):
            return f"{end.node}: it ended with status {status}"
    return next((line.strip() for line in reversed(launcher)), "")


def _words(lines: Sequence[str]) -> list[str]:
    """What the program itself said: without torchrun's part, rules and arrows."""
    own = list(takewhile(lambda line: not TORCHRUN_END.search(line), lines))
    return [
        line.strip()
        for line in own
        if LETTERS.search(line) and not TORCHRUN_LOG.search(line) and not SURVIVED.search(line)
    ]
