"""Which rank ran on which node, as launchers tell it: torchrun's closing table and srun's errors."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from slurm_resilience.diagnosis.facts import Said
from slurm_resilience.diagnosis.findings import Accused
from slurm_resilience.slurm.hostlist import expand

TABLE = 4
"""Lines of torchrun's table before its exit code."""
MOST_TASKS = 1 << 17
_RANK = re.compile(r"^\s*rank\s+: (\d+) \(local_rank: (\d+)\)")
_HOST = re.compile(r"^\s*host\s+: (\S+)")
_EXITCODE = re.compile(r"^\s*exitcode\s+: ")
_LOCAL = re.compile(
    r"\blocal_rank: \d|^\[default\d+\]:|torch[./]distributed[./](?:run|elastic|launcher)\b"
)
"""torchrun's own lines: then Slurm's task is the launcher, not the rank."""
_TASKS = re.compile(
    r"srun: error: (?P<nodes>[\w.\[\],-]{1,4096}): tasks? (?P<tasks>[\d,-]{1,4096}): "
)
_LABEL = re.compile(r" {0,4}(\d{1,7}): ")


class Row(msgspec.Struct, frozen=True):
    """A failure in torchrun's table."""

    rank: int
    local_rank: int
    node: str | None


def row_of_table(said: Said) -> Row | None:
    """The failure whose exit code *said* tells."""
    near = said.before[-TABLE:] if _EXITCODE.match(said.text) else ()
    rank = next((found for line in near if (found := _RANK.match(line))), None)
    host = next((found for line in near if (found := _HOST.match(line))), None)
    return Row(int(rank[1]), int(rank[2]), host[1] if host else None) if rank else None


def nodes_of_tasks(text: str) -> tuple[str, ...]:
    """The nodes whose tasks srun says have ended."""
    found = _TASKS.search(text)
    return names(found["nodes"]) if found else ()


def task_of(line: str) -> int | None:
    """The task that `srun --label` puts before *line*."""
    found = _LABEL.match(line)
    return int(found[1]) if found else None


def names(text: str) -> tuple[str, ...]:
    """The nodes in Slurm's *text* for them, which others may have written."""
    try:
        return expand(text) if text else ()
    except ValueError:
        return (text,)


def placed(found: Iterable[Accused], said: Sequence[Said]) -> tuple[Accused, ...]:
    """*found* with the nodes that *said* tells of their ranks, each once; nobody without a place."""
    accused = tuple(found)
    if any(one.node is None for one in accused):
        rows = tuple(row for one in said if (row := row_of_table(one)))
        tasks = dict(islice(_tasks(said), MOST_TASKS))
        is_torchrun = any(_LOCAL.search(one.text) for one in said)
        accused = tuple(_placed(one, rows, tasks, is_rank=not is_torchrun) for one in accused)
    each: dict[tuple[int | None, str | None, int | None], Accused] = {}
    for one in accused:
        place = (one.rank, one.node, one.local_rank)
        if place != (None, None, None):
            each.setdefault(place, one)
    return tuple(each.values())


def _placed(
    one: Accused, rows: Sequence[Row], tasks: dict[int, str], *, is_rank: bool
) -> Accused:
    if one.node is not None:
        return one
    same = {
        row
        for row in rows
        if one.rank in {None, row.rank} and one.local_rank in {None, row.local_rank}
    }
    if len(same) == 1 and (one.rank, one.local_rank) != (None, None):
        row = same.pop()
        local = row.local_rank if one.local_rank is not None else None
        return msgspec.structs.replace(one, rank=row.rank, node=row.node, local_rank=local)
    label = task_of(one.why)
    task = one.rank if label is None and is_rank else label
    return msgspec.structs.replace(one, node=tasks.get(task)) if task is not None else one


def _tasks(said: Sequence[Said]) -> Iterator[tuple[int, str]]:
    for one in said:
        found = _TASKS.search(one.text)
        nodes = names(found["nodes"]) if found else ()
        if found and len(nodes) == 1:
            for task in names(f"t[{found['tasks']}]"):
                if task[1:].isdigit():
                    yield int(task[1:]), nodes[0]
