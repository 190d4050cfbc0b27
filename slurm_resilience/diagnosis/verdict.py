"""
What ended an attempt, for the supervisor: what its nodes said last, laid before `policy`.

Unlike who reads a file it knows for sure which node wrote a line. What Slurm prints of its own
doing is left out, as the supervisor asks Slurm itself, and so is a program's word that it is done,
as its ranks tell that.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import cast

from slurm_resilience.diagnosis.facts import Left, NodeEnd, Said
from slurm_resilience.diagnosis.findings import Verdict
from slurm_resilience.diagnosis.lines import clean, goes_on, seconds_of, unprefixed
from slurm_resilience.diagnosis.policy import BEFORE, decide, matters
from slurm_resilience.diagnosis.rules import (
    ALL,
    DONE,
    STATUS,
    SURVIVED,
    TORCHRUN_END,
    TORCHRUN_LOG,
    UNKNOWN,
    row_of,
)
from slurm_resilience.diagnosis.traceback import is_source
from slurm_resilience.incident import Retry, Suspect

LETTERS = re.compile(r"[^\W\d_]{2}")
_OF_SLURM = frozenset({"state", "outside", "exit"})
_CLEAR = frozenset(row.id for row in ALL if row.role == "cause" and row.weight)


def diagnose(
    ends: Sequence[NodeEnd], launcher: Sequence[str] = (), nodes: Iterable[str] = ()
) -> Verdict:
    """
    The verdict on an attempt that ended by itself.

    *ends* in the order in which the nodes ended; *launcher*: last lines of srun; *nodes*: all of
    the attempt, where they are more than ended: only these may be suspects.
    """
    known = tuple(nodes) or tuple(end.node for end in ends)
    said = [one for index, end in enumerate(ends) for one in _of_node(end, index)]
    said += _stream(launcher, _place(len(ends)), None)
    found = decide(Left(tuple(said), nodes=known))
    suspects: dict[str, Suspect] = {}
    for one in found.suspects:
        if one.node in known:
            suspects.setdefault(one.node, Suspect(one.node, one.why, one.rank))
    retry = "same-nodes" if found.retry == "exclude-node" and not suspects else found.retry
    told = tuple(line.text.strip() for line in found.evidence)
    if found.cause == UNKNOWN.id:
        told = tuple(filter(None, [_last_words(ends, launcher)]))
    is_told = not told or unprefixed(told[0]) in found.advice
    return Verdict(
        found.class_,
        found.cause,
        found.advice if is_told else f"{found.advice}: {told[0]}",
        cast("Retry", retry),  # `leave` and `ask-slurm` stand only in rows of what Slurm does
        tuple(suspects.values()),
        told,
        # Of a fault that names a node the others may tell as well: then it is none of that node.
        is_clear=found.cause in _CLEAR
        and found.confidence != "low"
        and (retry != "exclude-node" or len(ends) == len(known)),
    )


def _of_node(end: NodeEnd, index: int) -> Iterator[Said]:
    """What a node's files and streams say, what is most likely to hold the cause first."""
    errors = sorted(end.errors, key=lambda error: error.at)
    status = [f"{end.node}: exit code {end.status}"] if end.status else []
    streams = [error.message.splitlines() for error in errors]
    for number, lines in enumerate([*streams, [*end.stderr, *status], end.stdout]):
        yield from _stream(lines, f"{_place(index)}.{number:03}", end.node)


def _place(index: int) -> str:
    """Sorts as the nodes ended."""
    return f"{index:06}"


def _stream(raw: Sequence[str], place: str, node: str | None) -> Iterator[Said]:
    lines = [
        clean(part.encode("utf-8", "replace")) for line in raw for part in line.split("\r")
    ]
    for number, line in enumerate(lines):
        row = row_of(line)
        if row is None and not matters(line):
            continue
        if DONE.search(line) or (row and row.role in _OF_SLURM):
            continue
        before = lines[max(0, number - BEFORE) : number]
        if not (row and row.is_source) and is_source(line, before):
            continue
        stamps = map(seconds_of, [line, *reversed(before)])
        yield Said(
            line,
            place,
            offset=number,
            at=next((stamp for stamp in stamps if stamp is not None), None),
            survived=goes_on("\n".join(lines[number + 1 :]).encode()),
            before=tuple(before),
            node=node,
        )


def _last_words(ends: Sequence[NodeEnd], launcher: Sequence[str]) -> str:
    """The last line with words of the node that failed first, else that it said nothing."""
    failed = [end for end in ends if end.status] or ends
    for end in failed:
        words = [*_words(end.stdout), *_words(end.stderr)]
        if words:
            return f"{end.node}: {words[-1]}"
    for end in failed:
        for status in sorted(_statuses(end), reverse=True):
            return f"{end.node}: it ended with status {status}"
    return next((line.strip() for line in reversed(launcher)), "")


def _statuses(end: NodeEnd) -> Iterator[int]:
    """Of a node's command and, under torchrun, of its ranks."""
    if end.status is not None:
        yield end.status
    for line in end.stderr:
        found = STATUS.search(line)
        if found:
            yield int(found[1])


def _words(lines: Sequence[str]) -> list[str]:
    """What the program itself said: without torchrun's part, rules and arrows."""
    own = list(takewhile(lambda line: not TORCHRUN_END.search(line), lines))
    return [
        line.strip()
        for line in own
        if LETTERS.search(line) and not TORCHRUN_LOG.search(line) and not SURVIVED.search(line)
    ]
