"""Whom a set of lines accuses: who reports a fault is not always who has it."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from slurm_resilience.diagnosis.facts import Said
from slurm_resilience.diagnosis.findings import Accused
from slurm_resilience.diagnosis.lines import Writer, writer_of
from slurm_resilience.diagnosis.places import (
    names,
    nodes_of_tasks,
    placed,
    row_of_table,
    task_of,
)
from slurm_resilience.diagnosis.rules import named
from slurm_resilience.diagnosis.rules.row import Row

MOST = 32
APART = 100
"""Collectives of one group differ by a handful when its ranks wait for each other."""
_WORK = re.compile(r"WorkNCCL\((?:SeqNum|OpSeqNum)=(\d+)")
_AT_WORK = re.compile(
    r"\[PG (?:ID )?(?P<group>\S+(?: PG GUID \S+)?) Rank \d+\].*(?:detected by watchdog at work|Timeout at NCCL"
    r" work): (?P<seq>\d+), last enqueued(?: NCCL work)?: (?P<enqueued>\d+)"
)
WORLD = re.compile(r"\bnranks (\d+)|\bworld_size[=:] ?(\d+)")


class Match(NamedTuple):
    """A line and the row that it meets."""

    row: Row
    said: Said


class _At(NamedTuple):
    """Where a rank is."""

    waits_at: int
    begun: int
    """The last collective that it has begun."""
    said: Said


def accused(matches: Sequence[Match], said: Sequence[Said]) -> tuple[Accused, ...]:
    """Whom *matches*, all of one id, accuse; *said* is everything that was kept."""
    row = matches[0].row
    if row.id == "collective-timeout":
        found: Iterable[Accused] = _behind(said)
    elif row.accuses == "lone":
        reporters = {writer_of(match.said.text).rank for match in matches}
        found = _reporters(matches) if len(reporters) == 1 else ()
    elif row.accuses == "link":
        found = (*_reporters(matches[:1]), *_peers(matches[:1]))
    elif row.accuses == "reporter":
        found = _reporters(matches)
    elif row.accuses == "named":
        found = _named(matches)
    else:
        found = ()
    return placed(found, said)[:MOST]


def _reporters(matches: Sequence[Match]) -> Iterator[Accused]:
    seen: set[tuple[Writer, int | None]] = set()
    for match in matches:
        writer = writer_of(match.said.text)
        rank = match.said.rank if writer.rank is None else writer.rank
        local = match.said.local_rank if writer.local_rank is None else writer.local_rank
        node = match.said.node or writer.node
        writer = Writer(rank, local if rank is None else None, node)
        task = task_of(match.said.text)
        told = any(part is not None for part in (*writer, task))
        if told and (writer, task) not in seen:
            seen.add((writer, task))
            yield Accused(match.said.text.strip(), writer.rank, writer.node, writer.local_rank)


def _peers(matches: Sequence[Match]) -> Iterator[Accused]:
    for match in matches:
        peer = named(match.row, match.said.text).get("peer")
        if peer:
            yield Accused(f"the other end: {match.said.text.strip()}", node=peer)


def _named(matches: Sequence[Match]) -> Iterator[Accused]:
    for match in matches:
        text = match.said.text
        groups = named(match.row, text)
        nodes = names(groups.get("node", ""))
        rank = int(groups["rank"]) if "rank" in groups else None
        if rank is not None:
            yield Accused(text.strip(), rank, nodes[0] if len(nodes) == 1 else None)
        for node in nodes if rank is None else ():
            yield Accused(text.strip(), node=node)
        for each in groups.get("ranks", "").split(", ") if "ranks" in groups else ():
            yield Accused(text.strip(), rank=int(each))
        if match is matches[0] and match.row.role == "symptom" and match.row.class_ == "memory":
            for node in nodes_of_tasks(text):  # srun itself may have ended later ones
                yield Accused(text.strip(), node=node)
        if match.row.role in {"symptom", "fallout"} and not groups:
            yield from _ended(match.said)


def _ended(said: Said) -> Iterator[Accused]:
    """Of a line that tells how a process ended: torchrun's log, or its closing table."""
    local = writer_of(said.text).local_rank
    row = row_of_table(said)
    if local is not None:
        yield Accused(said.text.strip(), local_rank=local)
    elif row is not None:
        yield Accused(said.text.strip(), row.rank, row.node, row.local_rank)


def _behind(said: Sequence[Said]) -> Iterator[Accused]:
    """
    Ranks that lag behind in a collective, and, where the world's size is told, the few that are
    silent.

    Numbers are compared inside one process group only. Where no line names a group (before torch
    2.4) one rank alone may lag, far behind others that agree.
    """
    groups: dict[str, dict[int, _At]] = defaultdict(dict)
    plain: dict[int, _At] = {}
    world = 0
    for one in said:
        sized = WORLD.search(one.text)
        if sized:
            world = max(world, int(sized[1] or sized[2]))
        rank = writer_of(one.text).rank
        if rank is None:
            continue
        at_work, work = _AT_WORK.search(one.text), _WORK.search(one.text)
        if at_work:
            at = _At(int(at_work["seq"]), int(at_work["enqueued"]), one)
            groups[at_work["group"]][rank] = at
        elif work and rank not in plain:
            plain[rank] = _At(int(work[1]), int(work[1]) + APART, one)
    for members in groups.values():
        yield from _laggards(members)
    if not groups:
        yield from _laggards(plain)
    reporting = {*plain, *(rank for members in groups.values() for rank in members)}
    silent = set(range(world)) - reporting
    if reporting and silent and len(silent) * 4 <= world:
        for rank in sorted(silent):
            yield Accused(
                f"reports nothing, while {len(reporting)} of {world} ranks wait", rank
            )


def _laggards(members: dict[int, _At]) -> Iterator[Accused]:
    """Ranks that have not even begun the collective that others wait at; few, or none."""
    furthest = max((at.waits_at for at in members.values()), default=0)
    late = {rank: at for rank, at in members.items() if at.begun < furthest}
    if len(late) > max(1, len(members) // 4):
        return
    for rank, at in late.items():
        text = f"at collective {at.waits_at} while others wait at {furthest}"
        yield Accused(f"{text}: {at.said.text.strip()}", rank, at.said.node)
