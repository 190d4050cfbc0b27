"""
What ended an attempt, for the supervisor: from the text and the exit codes of its nodes.

The same rules as `policy`, with less to go by and one thing more: it knows for sure which node wrote
a line. What Slurm prints of its own doing is left out, as the supervisor asks Slurm itself.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple, cast

import msgspec

from slurm_resilience.diagnosis.exceptions import is_user_error, reason_of
from slurm_resilience.diagnosis.facts import NodeEnd, Verdict
from slurm_resilience.diagnosis.lines import writer_of
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
    row_of,
)
from slurm_resilience.diagnosis.rules.row import Row
from slurm_resilience.diagnosis.traceback import PREFIX, Raised, tracebacks
from slurm_resilience.incident import Retry, Suspect

MOST_EVIDENCE = 10
LETTERS = re.compile(r"[^\W\d_]{2}")
_BY_ID = {row.id: row for row in ROWS}


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
    causes = [match for match in matches if match.row.role == "cause"]
    if causes:
        clear = any(match.row.weight for match in causes)
        return msgspec.structs.replace(_verdict(causes), is_clear=clear)
    misused = next(_misuses(ends), None)
    if misused:
        return msgspec.structs.replace(_verdict([misused]), is_clear=True)
    for end in ends:
        for raised in tracebacks(_text(end)):
            if is_user_error(raised):
                return _user_error(raised, end.node)
    symptoms = [match for match in matches if match.row.role == "symptom"]
    fallout = [match for match in matches if match.row.role == "fallout"]
    return _verdict(
        [*symptoms, *_statuses(ends)]
        or fallout
        or [_Match(UNKNOWN, None, _last_words(ends, launcher))]
    )


def _text(end: NodeEnd) -> list[str]:
    """All lines of a node, what is most likely to hold the cause first."""
    errors = sorted(end.errors, key=lambda error: error.at)
    told = [line for error in errors for line in error.message.splitlines()]
    return [line for line in (*told, *end.stderr, *end.stdout) if not SURVIVED.search(line)]


def _matches(lines: Sequence[tuple[str | None, str]]) -> Iterator[_Match]:
    for node, line in lines:
        row = row_of(line)
        if row is not None:
            yield _Match(row, node, line.strip())


def _statuses(ends: Sequence[NodeEnd]) -> Iterator[_Match]:
    for end in ends:
        if end.status in STATUSES:
            yield _Match(
                _BY_ID[STATUSES[end.status]], end.node, f"{end.node}: status {end.status}"
            )


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


def _user_error(raised: Raised, node: str) -> Verdict:
    return Verdict(
        "user-error",
        "user-error",
        f"{reason_of(raised)}; a retry would end the same way",
        "stop",
        evidence=(f"{node}: {raised.line}",),
        is_clear=True,
    )


def _verdict(matches: Sequence[_Match]) -> Verdict:
    """The heaviest row decides, of equals the first; what says retry elsewhere needs a node."""
    first = max(matches, key=lambda match: match.row.weight)
    row = first.row
    same = [match for match in matches if match.row.id == row.id]
    suspects: dict[str, Suspect] = {}
    if row.retry == "exclude-node":
        for match in same:
            if match.node:
                suspects.setdefault(
                    match.node,
                    Suspect(match.node, why=match.line, rank=writer_of(match.line).rank),
                )
    told = dict.fromkeys(match.line for match in [first, *same, *matches])
    retry = "same-nodes" if row.retry == "exclude-node" and not suspects else row.retry
    return Verdict(
        row.class_,
        row.id,
        f"{row.advice}: {first.line}" if first.line else row.advice,
        cast("Retry", retry),  # `ask-slurm` stands only in rows of what Slurm does
        tuple(suspects.values()),
        tuple(filter(None, told))[:MOST_EVIDENCE],
    )


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
