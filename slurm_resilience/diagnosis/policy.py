"""
What was found of an attempt -> why it ended, and whether a retry can help. Pure.

Slurm's record outranks all, and what our own watchers concluded outranks text. Then the kind of a
line counts (see `rules.row.Role`), then its moment: the first cause comes before its echoes. Lines
that the program lived through do not count, those that merely name a fault count less than how a
process ended, and of lines of one moment the one that names a broken part decides. That a job hung until its time limit or until somebody cancelled it is no cause where
something before says why it hung.
"""

import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from slurm_resilience.diagnosis.exceptions import KEPT, ended_with, misused, user_error
from slurm_resilience.diagnosis.facts import Left, Said
from slurm_resilience.diagnosis.findings import Accused, Diagnosis, Evidence
from slurm_resilience.diagnosis.hearsay import TRACE, is_hearsay, is_prose
from slurm_resilience.diagnosis.lines import unprefixed
from slurm_resilience.diagnosis.moments import (
    first,
    in_one_year,
    is_near,
    order,
    recent,
    stands_before,
)
from slurm_resilience.diagnosis.record import RECORD, recorded_in
from slurm_resilience.diagnosis.rules import (
    DONE,
    MISUSED,
    STUCK_TOGETHER,
    SURVIVED,
    TOGETHER,
    UNKNOWN,
    USER_ERROR,
    row_of,
)
from slurm_resilience.diagnosis.rules.row import Row
from slurm_resilience.diagnosis.suspects import WORLD, Match, accused
from slurm_resilience.incident import UNTOLD, Incident

HEARSAY = "hearsay"
TIERS = ("state", "cause", "exception", "symptom", HEARSAY, "fallout", "exit")
_TIER = {"outside": "symptom"}
"""How a process ended, and that somebody ended it: whichever came first."""
BEFORE = 120
"""Lines in front of one that may matter, for a traceback or a table that it ends."""
MOST_EVIDENCE = 10
LONG = 800
"""Characters of a line that is shown."""
MANY = 3
"""Nodes lost at once."""
_ENDED_LATE = frozenset({"slurm-time-limit", "slurm-cancelled"})
"""A job that hangs ends so, whatever it hangs for."""
_LEAST = {"cause": 1, "fallout": 2}
"""Weight from which a line of that role says why: less may be said by ranks as they are ended."""
_EXCEPTION = re.compile(
    r"(?:^|[\s\]:)])[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning|Exit|Failure)(?::|$)"
)


def matters(line: str) -> bool:
    """Whether a line may decide."""
    if row_of(line) is not None:
        return True
    return any(pattern.search(line) for pattern in (_EXCEPTION, WORLD, KEPT, DONE))


def decide(left: Left) -> Diagnosis:
    """Why the attempt ended."""
    left = msgspec.structs.replace(left, said=in_one_year(left.said))
    matches = recent([Match(row, said) for said, row in _rows(left.said)], left.said)
    matches = [match for match in matches if _is_borne_out(match.row, left.said)]
    recorded = recorded_in(left.record, matches)
    late = [match for match in [*recorded, *matches] if match.row.id in _ENDED_LATE]
    incident = left.incident
    if incident is not None and incident.cause in {UNKNOWN.id, UNTOLD}:
        incident = None
    if recorded and recorded[0].row.id not in _ENDED_LATE:
        return _diagnosis(recorded[0].row, recorded, left)
    if incident is not None and not (recorded and incident.kind == "notice"):
        return _beside(_of_incident(incident), recorded, left)
    faults = _faults_before(late, matches) if late else []
    if faults:
        states = [m for m in matches if m.row.role == "state" and m.row.id not in _ENDED_LATE]
        return _beside(_of_text([*states, *faults], left), late, left)
    if recorded:
        return _diagnosis(recorded[0].row, recorded, left)
    return _of_text(matches, left)


def _beside(found: Diagnosis, late: Sequence[Match], left: Left) -> Diagnosis:
    """*found*, with what ended the job at last as evidence."""
    end = _diagnosis(late[0].row, late, left).evidence if late else ()
    return msgspec.structs.replace(found, evidence=(*found.evidence, *end)[:MOST_EVIDENCE])


def _of_text(matches: Sequence[Match], left: Left) -> Diagnosis:
    """What lines say, kind by kind."""
    tiers = [_tier(match) for match in matches]
    for tier in TIERS:
        if tier == HEARSAY and _is_done(left):
            continue
        if tier == "exception":
            own = _of_program(left)
            if own is not None:
                return own
            continue
        inside = [match for match, its in zip(matches, tiers, strict=True) if its == tier]
        going = [match for match in inside if not match.said.survived]
        if going:
            chosen = first(going)
            same = [one for one in inside if one.row.id == chosen.row.id and one is not chosen]
            same.sort(key=lambda match: order(match.said))
            found = _refined(chosen.row, [chosen, *same], left)
            doubted = tier == "cause" and is_prose(chosen.said.text)
            if tier == HEARSAY or (doubted and _raised_after(chosen.said, left)):
                found = msgspec.structs.replace(found, confidence="low")
            return found
    return Diagnosis("unknown", "unknown", "same-nodes", advice=UNKNOWN.advice)


def _raised_after(one: Said, left: Left) -> bool:
    """Whether the program raised an exception of its own after *one*."""
    raised = user_error(left.said)
    return raised is not None and order(raised[0]) > order(one)


def _faults_before(late: Sequence[Match], matches: Sequence[Match]) -> list[Match]:
    """What kept a job until its *late* end: causes and long waits that stand before it."""
    ends = [match.said for match in late if match.said.file != RECORD]
    return [
        match
        for match in matches
        if match.row.weight >= _LEAST.get(match.row.role, math.inf)
        and not match.said.survived
        and _tier(match) != HEARSAY
        and all(stands_before(match.said, end) for end in ends)
    ]


def _is_borne_out(row: Row, said: Sequence[Said]) -> bool:
    """
    Whether the attempt ended as *row* asks for, where it does ask.

    A batch script's own end is told by nobody; then nothing else may be told either.
    """
    return (
        not row.ended
        or any(ended_with(one.text, *row.ended) for one in said)
        or all(row_of(one.text) is row for one in said)
    )


def _of_program(left: Left) -> Diagnosis | None:
    """What the program itself did wrong, where the text shows that."""
    said = misused(left.said)
    if said is not None:
        return _diagnosis(MISUSED, [Match(MISUSED, said)], left)
    raised = user_error(left.said)
    if raised is None:
        return None
    row = msgspec.structs.replace(USER_ERROR, advice=f"{raised[1]}; {USER_ERROR.advice}")
    return _diagnosis(row, [Match(row, raised[0])], left)


def _rows(said: Sequence[Said]) -> Iterator[tuple[Said, Row]]:
    for one in said:
        passed = SURVIVED.search(one.text) or TRACE.match(unprefixed(one.text))
        row = None if passed else row_of(one.text)
        if row is not None:
            yield one, row


def _tier(match: Match) -> str:
    if is_hearsay(match.row, match.said.text):
        return HEARSAY
    return _TIER.get(match.row.role, match.row.role)


def _of_incident(incident: Incident) -> Diagnosis:
    return Diagnosis(
        incident.class_,
        incident.cause,
        incident.retry,
        tuple(Accused(one.why, one.rank, one.node) for one in incident.suspects),
        tuple(
            Evidence("incident.json", None, text) for text in incident.evidence[:MOST_EVIDENCE]
        ),
        incident.reason,
        "high",
    )


# ── from matches to a diagnosis ─────────────────────────────────────────────────────────────


def _refined(row: Row, matches: list[Match], left: Left) -> Diagnosis:
    suspects = accused(matches, left.said)
    if row.id == "node-failure":
        nodes = {one.node for one in suspects if one.node}
        domains = {left.domains.get(node) for node in nodes}
        together = len(nodes) >= MANY or (len(nodes) > 1 and len(domains - {None}) == 1)
        if together and all(is_near(matches[0].said, match.said) for match in matches):
            return _diagnosis(TOGETHER, matches, left, suspects)
    if row.retry == "exclude-node" and row.role == "cause" and _is_shared(suspects, left.nodes):
        advice = f"all nodes of the job say so, so none of them is at fault; {row.advice}"
        row, suspects = msgspec.structs.replace(row, retry="same-nodes", advice=advice), ()
    ranks = {text[1] for match in matches if (text := _RANK.search(match.said.text))}
    if row.accuses == "lone" and len(ranks) > 1:
        row, suspects = STUCK_TOGETHER, ()
    if row.role == "fallout" and left.slowed is not None and row.class_ != "network":
        row = msgspec.structs.replace(
            row,
            class_="network",
            advice=f"steps took several times longer before the end; {row.advice}",
        )
        matches = [*matches, Match(row, left.slowed)]
    if (
        _is_done(left)
        and row.class_ in {"software", "network", "hardware"}
        and row.retry == "same-nodes"
    ):
        advice = f"the training had said that it was done: see that its results are whole; {row.advice}"
        row = msgspec.structs.replace(row, retry="stop", advice=advice)
    return _diagnosis(row, matches, left, suspects)


def _is_done(left: Left) -> bool:
    return any(DONE.search(one.text) and not one.survived for one in left.said)


def _is_shared(suspects: Sequence[Accused], nodes: Sequence[str]) -> bool:
    return len(nodes) > 1 and {one.node for one in suspects} >= set(nodes)


_RANK = re.compile(r"\[rank(\d+)\]")


def _excerpt(match: Match) -> str:
    """The line, or of a very long one what stands around the deciding words."""
    text = match.said.text.strip()
    if len(text) <= LONG:
        return text
    found = re.search(match.row.pattern, text)
    start = max(0, (found.start() if found else 0) - LONG // 2)
    return f"{'…' if start else ''}{text[start : start + LONG]}…"


def _diagnosis(
    row: Row, matches: Sequence[Match], left: Left, suspects: tuple[Accused, ...] | None = None
) -> Diagnosis:
    told = dict.fromkeys(
        Evidence(match.said.file, match.said.line, _excerpt(match)) for match in matches
    )
    return Diagnosis(
        row.class_,
        row.id,
        row.retry,
        accused(matches, left.said) if suspects is None else suspects,
        tuple(told)[:MOST_EVIDENCE],
        row.advice,
        row.confidence,
    )
