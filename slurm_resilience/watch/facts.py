"""
What was seen beside the ranks of one job: frozen values, to and from JSON.

An agent reads `NodeFacts` on its node every few seconds. The supervisor folds them into
`JobFacts`, on one clock of its own: clocks of nodes are never compared.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

Notice = Literal["time-limit", "preemption"]
"""Why Slurm asks the job to stop."""


class RankFacts(msgspec.Struct, frozen=True):
    """One rank: its heartbeat, and what the kernel says about its process."""

    rank: int
    local_rank: int
    pid: int
    step: int
    """-1 before the first."""
    phase: str
    """start, step, save, load, eval or done."""
    saved_step: int
    age_s: float
    """Seconds since step or phase changed."""
    state: str | None = None
    """R, S, D, T or Z as in /proc/<pid>/stat; None: unread or gone."""
    cpu_s: float | None = None
    """Processor seconds used since the process began."""


class GpuFacts(msgspec.Struct, frozen=True):
    """One GPU; None where NVML would not say."""

    index: int
    uuid: str = ""
    lost: bool = False
    """Fallen off the bus, or in need of a reset."""
    ecc_uncorrected: int | None = None
    """Volatile: since the driver was loaded."""
    utilisation: float | None = None
    """Share of time with a kernel running, 0 to 1. Explains a stall, never decides one: a rank
    that spins in a collective shows 1."""
    power_w: float | None = None


class NodeFacts(msgspec.Struct, frozen=True):
    """One node at one moment."""

    node: str
    ranks: tuple[RankFacts, ...] = ()
    gpus: tuple[GpuFacts, ...] | None = None
    """None: not looked yet, or unread."""
    links: dict[str, str] = {}
    """State of each fabric port, `mlx5_0/1` -> `ACTIVE`."""
    events: tuple[str, ...] = ()
    """What the kernel said of faulty hardware since the attempt began."""
    is_driver_mute: bool = False
    """The GPU driver does not answer."""
    load_1m: float | None = None
    unread: dict[str, str] = {}
    """What could not be read -> why."""


class Seen(msgspec.Struct, frozen=True):
    """One node as the supervisor knows it. Times are the supervisor's own clock, in seconds."""

    facts: NodeFacts
    """The newest."""
    first_gpus: tuple[GpuFacts, ...] | None = None
    first_links: dict[str, str] | None = None
    """As first read: what was already so then is no evidence."""
    heard_at: float | None = None
    """None: never."""
    connected: bool = False
    ended: bool = False
    """Its command has ended, and the agent said how."""


class Progress(msgspec.Struct, frozen=True):
    """How the job as a whole moves."""

    moved_at: float
    """When any rank last changed step or phase."""
    stepped_at: float
    """When the highest step last rose; before the first, when the attempt began."""
    highest_step: int = -1
    steps_seen: int = 0
    longest_step_s: float = 0.0
    """Longest time from one step to the next; until there are two, from the start to the first."""


class JobFacts(msgspec.Struct, frozen=True):
    """All nodes of one attempt."""

    began_at: float
    progress: Progress
    nodes: dict[str, Seen] = {}
    notice: Notice | None = None

    @property
    def awaited(self) -> dict[str, Seen]:
        """Nodes whose command has not ended."""
        return {node: seen for node, seen in self.nodes.items() if not seen.ended}

    def ranks(self) -> Iterator[tuple[str, RankFacts]]:
        """Every rank with its node."""
        return ((name, rank) for name, seen in self.nodes.items() for rank in seen.facts.ranks)


def began(now: float, nodes: Sequence[str] = ()) -> JobFacts:
    """An attempt on *nodes* (empty: not known) of which nothing was heard yet."""
    empty = {name: Seen(NodeFacts(name)) for name in nodes}
    return JobFacts(now, Progress(now, now), nodes=empty)


def heard(job: JobFacts, report: NodeFacts, now: float) -> JobFacts:
    """*job* after an agent's report that came at *now*."""
    before = job.nodes.get(report.node) or Seen(NodeFacts(report.node))
    seen = Seen(
        report,
        first_gpus=report.gpus if before.first_gpus is None else before.first_gpus,
        first_links=report.links if before.first_links is None else before.first_links,
        heard_at=now,
        connected=True,
        ended=before.ended,
    )
    return msgspec.structs.replace(
        job,
        nodes={**job.nodes, report.node: seen},
        progress=_moved(job.progress, before.facts, report, now),
    )


def connected(job: JobFacts, node: str, now: float) -> JobFacts:
    """*job* after an agent's connection came up."""
    seen = job.nodes.get(node) or Seen(NodeFacts(node))
    seen = msgspec.structs.replace(seen, connected=True, heard_at=now)
    return msgspec.structs.replace(job, nodes={**job.nodes, node: seen})


def disconnected(job: JobFacts, node: str) -> JobFacts:
    """*job* after an agent's connection broke."""
    seen = msgspec.structs.replace(job.nodes[node], connected=False)
    return msgspec.structs.replace(job, nodes={**job.nodes, node: seen})


def ended(job: JobFacts, node: str) -> JobFacts:
    """*job* after the command ended on *node*."""
    seen = msgspec.structs.replace(job.nodes[node], ended=True)
    return msgspec.structs.replace(job, nodes={**job.nodes, node: seen})


def noticed(job: JobFacts, notice: Notice) -> JobFacts:
    """*job* after Slurm's notice; the first one counts."""
    return msgspec.structs.replace(job, notice=job.notice or notice)


def _moved(progress: Progress, before: NodeFacts, report: NodeFacts, now: float) -> Progress:
    old = {rank.rank: rank for rank in before.ranks}
    if all(_place(old.get(rank.rank)) == _place(rank) for rank in report.ranks):
        return progress
    highest = max(rank.step for rank in report.ranks)
    if highest <= progress.highest_step:
        return msgspec.structs.replace(progress, moved_at=now)
    took = now - progress.stepped_at
    # The first step holds compilation and warm-up: it stands in only until there is a second.
    longest = took if progress.steps_seen <= 1 else max(progress.longest_step_s, took)
    return Progress(now, now, highest, progress.steps_seen + 1, longest)


def _place(rank: RankFacts | None) -> tuple[int, str] | None:
    return (rank.step, rank.phase) if rank else None
