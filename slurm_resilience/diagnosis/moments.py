"""When lines were written, as far as they say so: what comes first, and what is one event."""

from collections.abc import Sequence

import msgspec

from slurm_resilience.diagnosis.facts import Said
from slurm_resilience.diagnosis.rules.kernel import is_of_kernel
from slurm_resilience.diagnosis.suspects import Match

MOMENT_S, MOMENT_BYTES = 120.0, 256 << 10
"""Lines closer than this tell of one event: in time, or in a file that tells no time."""
OLD_S = 6 * 3600.0
"""A kernel line so long before the last line of all tells of another event."""
YEAR_S = 366 * 86400.0


def order(said: Said) -> tuple[float, str, int]:
    """The key by which lines stand in the order in which they were written."""
    return (-1.0 if said.at is None else said.at, said.file, said.offset)


def first(matches: Sequence[Match]) -> Match:
    """The match that decides: the heaviest of those that belong to the first one's moment."""
    ordered = sorted(matches, key=lambda match: order(match.said))
    start = ordered[0]
    near = [match for match in ordered if is_near(start.said, match.said)]
    return max(near, key=lambda match: match.row.weight)  # of equals, the first


def is_near(start: Said, other: Said) -> bool:
    """Whether both may tell of one event."""
    if start.at is not None and other.at is not None:
        return other.at - start.at <= MOMENT_S
    return start.file != other.file or other.offset - start.offset <= MOMENT_BYTES


def stands_before(one: Said, other: Said) -> bool:
    """Whether *one* may be the older; where nothing tells, it may."""
    if one.at is not None and other.at is not None:
        return one.at < other.at
    return one.file != other.file or one.offset < other.offset


def in_one_year(said: Sequence[Said]) -> tuple[Said, ...]:
    """A night from December to January in order: few formats tell the year."""
    stamps = [one.at for one in said if one.at is not None]
    if not stamps or max(stamps) - min(stamps) < YEAR_S / 2:
        return tuple(said)
    return tuple(
        one
        if one.at is None or one.at > YEAR_S / 2
        else msgspec.structs.replace(one, at=one.at + YEAR_S)
        for one in said
    )


def recent(matches: list[Match], said: Sequence[Said]) -> list[Match]:
    """Without what a kernel log, which often holds weeks, tells of other days."""
    last = max((one.at for one in said if one.at is not None), default=0.0)
    return [
        match
        for match in matches
        if match.said.at is None
        or last - match.said.at < OLD_S
        or not is_of_kernel(match.said.text)
    ]
