"""
What is wrong with a running job: `judge` says whether it can go on, `evidence` who is to blame.

A stall is decided by progress alone. Utilisation, process states and counters only explain it
and point at a node: a rank that spins in a collective keeps its GPU at 100 % (NVIDIA/nccl#968).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from slurm_resilience.incident import SILENT
from slurm_resilience.watch.facts import JobFacts, RankFacts, Seen
from slurm_resilience.watch.settings import WatchSettings

UP = frozenset({"ACTIVE", "UP"})
"""States of a port and of an interface that carry traffic."""
MISSED_REPORTS = 3
BUSY_S = 5.0
"""An agent on a node with too much to do may be late by that."""


class Finding(msgspec.Struct, frozen=True):
    """What a rule found."""

    id: str
    detail: str
    """For people; says its subject."""
    node: str | None = None
    rank: int | None = None


# ── can the job go on? ──────────────────────────────────────────────────────────────────────


def judge(job: JobFacts, settings: WatchSettings, now: float) -> list[Finding]:
    """Every reason not to go on, the most telling first."""
    return [finding for rule in JUDGING for finding in rule(job, settings, now)]


def agent_lost(job: JobFacts, settings: WatchSettings, now: float) -> Iterator[Finding]:
    """An agent's end means its ranks' end: they are never left without one."""
    for node, seen in job.awaited.items():
        if seen.heard_at is not None and not seen.connected:
            silence = now - seen.heard_at
            if silence > settings.lost_s:
                yield Finding(
                    "agent-lost", f"the agent on {node} is gone for {silence:.0f} s", node
                )


def agent_silent(job: JobFacts, settings: WatchSettings, now: float) -> Iterator[Finding]:
    """A node that says nothing while no rank moves; one that only lost its line goes on."""
    if now - job.progress.moved_at <= settings.silent_s:
        return
    for node, seen in job.awaited.items():
        if seen.heard_at is not None and now - seen.heard_at > settings.silent_s:
            silence = now - seen.heard_at
            yield Finding(SILENT, f"{node} has said nothing for {silence:.0f} s", node)


def agent_missing(job: JobFacts, settings: WatchSettings, now: float) -> Iterator[Finding]:
    """The step was started there and nothing came of it."""
    waited = now - job.began_at
    if waited > settings.join_s:
        for node, seen in job.awaited.items():
            if seen.heard_at is None:
                yield Finding("agent-missing", f"{node} never joined in {waited:.0f} s", node)


def no_progress(job: JobFacts, settings: WatchSettings, now: float) -> Iterator[Finding]:
    """No rank changed step or phase for longer than what they do may take."""
    limit = limit_s(job, settings)
    still = now - job.progress.moved_at
    if limit is not None and still > limit:
        step = job.progress.highest_step
        where = f"after step {step}" if step >= 0 else "before the first step"
        yield Finding("no-progress", f"no rank moved for {still:.0f} s, {where}")


def not_finishing(job: JobFacts, settings: WatchSettings, now: float) -> Iterator[Finding]:
    """All ranks are done and their processes stay: the work is whole, only the end hangs."""
    ranks = [rank for _, rank in job.ranks()]
    still = now - job.progress.moved_at
    if ranks and all(rank.phase == "done" for rank in ranks) and still > settings.finish_s:
        yield Finding("not-finishing", f"all ranks were done {still:.0f} s ago and do not end")


JUDGING = (agent_lost, agent_silent, agent_missing, not_finishing, no_progress)


def limit_s(job: JobFacts, settings: WatchSettings) -> float | None:
    """
    How long the job may stand still: as long as the slowest thing that any rank is doing.

    Where a rank is stopped or a GPU broke, no longer than between two steps: what is stopped in a
    save gets no further with it. None where no rank has a heartbeat, or all are done.
    """
    progress = job.progress
    usual = max(settings.stall_s, settings.patience * progress.longest_step_s)
    limits = {
        "start": settings.startup_s,
        "step": usual if progress.steps_seen else settings.startup_s,
        "save": settings.save_s,
        "load": settings.load_s,
        "eval": settings.eval_s,
    }
    most = usual if any(found for rule in HOPELESS for found in rule(job)) else math.inf
    return max(
        (min(limits[rank.phase], most) for _, rank in job.ranks() if rank.phase in limits),
        default=None,
    )


# ── who is to blame? ────────────────────────────────────────────────────────────────────────


def evidence(job: JobFacts, settings: WatchSettings, now: float) -> list[Finding]:
    """What speaks against single nodes and ranks, the strongest first."""
    quiet = agent_quiet(job, settings, now)
    return [*quiet, *(finding for rule in ACCUSING for finding in rule(job))]


def agent_quiet(job: JobFacts, settings: WatchSettings, now: float) -> Iterator[Finding]:
    """In a job that stands still, a node that misses its reports outdoes any that makes them."""
    for node, seen in job.awaited.items():
        silence = now - (job.began_at if seen.heard_at is None else seen.heard_at)
        if silence > quiet_s(settings):
            yield Finding(SILENT, f"{node} has said nothing for {silence:.0f} s", node)


def quiet_s(settings: WatchSettings) -> float:
    """How long a node may say nothing that answers at all."""
    return max(MISSED_REPORTS * settings.report_s, BUSY_S)


def gpu_lost(job: JobFacts) -> Iterator[Finding]:
    """A GPU that was there at the start and is gone."""
    for node, seen in job.nodes.items():
        before = {gpu.index for gpu in seen.first_gpus or () if not gpu.lost}
        after = {gpu.index for gpu in seen.facts.gpus or () if not gpu.lost}
        if seen.facts.gpus is not None:
            for index in sorted(before - after):
                yield Finding("gpu-lost", f"gpu{index} on {node} is lost", node)


def ecc_uncorrected(job: JobFacts) -> Iterator[Finding]:
    """Memory of a GPU failed while the job ran."""
    for node, seen in job.nodes.items():
        before = {gpu.uuid: gpu.ecc_uncorrected for gpu in seen.first_gpus or ()}
        for gpu in seen.facts.gpus or ():
            first = before.get(gpu.uuid)
            if gpu.ecc_uncorrected is not None and first is not None:
                new = gpu.ecc_uncorrected - first
                if new > 0:
                    errors = "error" if new == 1 else "errors"
                    text = f"gpu{gpu.index} on {node}: {new} uncorrected ECC {errors}"
                    yield Finding("ecc-uncorrected", text, node)


def kernel_event(job: JobFacts) -> Iterator[Finding]:
    """The kernel of a node speaks of faulty hardware."""
    for node, seen in job.nodes.items():
        for line in seen.facts.events:
            yield Finding("kernel-event", f"{node}: {line}", node)


def driver_mute(job: JobFacts) -> Iterator[Finding]:
    """The GPU driver of a node stopped answering."""
    for node, seen in job.nodes.items():
        if seen.facts.is_driver_mute:
            yield Finding("driver-mute", f"the GPU driver on {node} does not answer", node)


def link_down(job: JobFacts) -> Iterator[Finding]:
    """A fabric port that was up at the start is not."""
    for node, seen in job.nodes.items():
        for port, state in seen.facts.links.items():
            if (seen.first_links or {}).get(port) in UP and state not in UP:
                yield Finding("link-down", f"{port} on {node} is {state}", node)


def rank_uninterruptible(job: JobFacts) -> Iterator[Finding]:
    """A rank waits in the kernel, for a disk, a file system or a driver."""
    yield from _in_state(job, "D", "rank-uninterruptible", "waits in the kernel (D)")


def rank_stopped(job: JobFacts) -> Iterator[Finding]:
    """A rank was stopped by a signal or a debugger."""
    yield from _in_state(job, "Tt", "rank-stopped", "is stopped (T)")


def rank_missing(job: JobFacts) -> Iterator[Finding]:
    """A node with fewer ranks than the others: one never came to its first line."""
    counts = {node: len(seen.facts.ranks) for node, seen in job.nodes.items()}
    most = max(counts.values(), default=0)
    for node, count in counts.items():
        if count < most:
            yield Finding("rank-missing", f"{node} has {count} of {most} ranks", node)


def rank_lagging(job: JobFacts) -> Iterator[Finding]:
    """A rank at a lower step than its peers: they wait for it, not it for them."""
    ranks = [(node, rank) for node, rank in job.ranks() if rank.phase != "done"]
    highest = max((rank.step for _, rank in ranks), default=-1)
    for node, rank in ranks:
        if rank.step < highest:
            text = f"rank {rank.rank} on {node} is at step {rank.step}, others at {highest}"
            yield Finding("rank-lagging", text, node, rank.rank)


def rank_odd_phase(job: JobFacts) -> Iterator[Finding]:
    """A minority of ranks does something else than the rest."""
    ranks = list(job.ranks())
    phases = Counter(rank.phase for _, rank in ranks)
    common, count = phases.most_common(1)[0] if phases else ("", 0)
    if count * 2 > len(ranks):
        for node, rank in ranks:
            if rank.phase != common:
                text = f"rank {rank.rank} on {node} is in {rank.phase}, others in {common}"
                yield Finding("rank-odd-phase", text, node, rank.rank)


ACCUSING = (
    gpu_lost,
    ecc_uncorrected,
    kernel_event,
    driver_mute,
    link_down,
    rank_stopped,
    rank_uninterruptible,
    rank_missing,
    rank_lagging,
    rank_odd_phase,
)


HOPELESS = (gpu_lost, ecc_uncorrected, rank_stopped)
"""What no patience with a save, a load or an evaluation helps."""


def explained(job: JobFacts) -> list[str]:
    """One line a node on what its GPUs and processors do: for people, no evidence."""
    return [_doing(node, seen) for node, seen in job.nodes.items() if seen.heard_at is not None]


def _doing(node: str, seen: Seen) -> str:
    states = Counter(rank.state or "gone" for rank in seen.facts.ranks)
    words = [f"ranks {_counted(states)}"] if states else ["no heartbeat"]
    for gpu in seen.facts.gpus or ():
        if gpu.utilisation is not None:
            power = f" at {gpu.power_w:.0f} W" if gpu.power_w is not None else ""
            words.append(f"gpu{gpu.index} {gpu.utilisation:.0%} busy{power}")
    words += [f"{what} unread: {why}" for what, why in seen.facts.unread.items()]
    return f"{node}: {', '.join(words)}"


def _counted(states: Mapping[str, int]) -> str:
    return " ".join(f"{state}x{count}" for state, count in sorted(states.items()))


def _in_state(job: JobFacts, states: str, identity: str, text: str) -> Iterator[Finding]:
    for node, rank in job.ranks():
        if _is_in(rank, states):
            yield Finding(identity, f"rank {rank.rank} on {node} {text}", node, rank.rank)


def _is_in(rank: RankFacts, states: str) -> bool:
    return rank.state is not None and rank.state in states
