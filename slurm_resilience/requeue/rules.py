"""Two judgements about a job: is another attempt worth it, and which nodes must it not get."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from slurm_resilience.incident import SILENT, Incident
from slurm_resilience.requeue.facts import JobFacts
from slurm_resilience.requeue.settings import RequeueSettings
from slurm_resilience.slurm.values import Job, Node

SET_UP_ATTEMPTS = 2
"""A job that fails before its first step is tried once more: the second time it is no accident."""

_NOT_SET_UP = frozenset({"network", "power", "hardware", "preemption"})
_NOT_FUTILE = frozenset({"preemption", "requeued"})


CLOCK_SKEW_S = 60.0
"""The node's clock that dated an incident, and slurmctld's that dated the attempt, may differ."""

_ACCIDENTS = frozenset({4, 6, 7, 8, 9, 11})
"""ILL, ABRT, BUS, FPE, KILL, SEGV. The others are sent by somebody who wants the job to end."""


class Exclusion(msgspec.Struct, frozen=True):
    """The nodes a job must not get, and those that were asked for in vain."""

    nodes: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """One phrase a node: `n7 is no node of this cluster`."""


def budget_spent(history: Sequence[Incident], settings: RequeueSettings) -> str:
    """Why no further attempt is worth it; empty while one is."""
    futile = futile_attempts(history)
    if futile >= settings.max_futile_attempts:
        return f"{futile} attempts in a row made no newer checkpoint"
    if set_up_failures(history) >= SET_UP_ATTEMPTS:
        return f"{SET_UP_ATTEMPTS} attempts in a row failed before their first step"
    return ""


def futile_attempts(history: Sequence[Incident]) -> int:
    """How many attempts, up to the last of *history*, ended without a newer checkpoint."""
    newest, futile = -1, 0
    for incident in history:
        saved = -1 if incident.saved_step is None else incident.saved_step
        if saved > newest:
            newest, futile = saved, 0
        elif incident.class_ not in _NOT_FUTILE:
            futile += 1
    return futile


def set_up_failures(history: Sequence[Incident]) -> int:
    """How many attempts, up to the last of *history*, never made a step for no outside cause."""
    failures = 0
    for incident in reversed(history):
        outside = incident.class_ in _NOT_SET_UP or incident.retry == "exclude-node"
        if incident.last_step is not None or outside:
            break
        failures += 1
    return failures


def suspects(facts: JobFacts, attempt: int, nodes: Sequence[Node]) -> tuple[str, ...]:
    """
    Nodes that the next attempt should not get, strongest suspicion first.

    The incident of *attempt* names them; of the nodes it ran on, those that are down by now are
    suspects whatever it says, as a node that loses power leaves no incident.
    """
    incident = facts.incident(attempt)
    accused = (
        [one.node for one in incident.suspects] if incident and is_accusing(incident) else []
    )
    lost = {node.name for node in nodes if is_lost(node)}
    return tuple(
        dict.fromkeys([*accused, *(node for node in facts.last_nodes if node in lost)])
    )


def left_to_slurm(
    facts: JobFacts,
    incident: Incident,
    nodes: Sequence[Node],
    settings: RequeueSettings,
    now: float,
) -> str:
    """
    Why a running job is left to Slurm, which requeues it when a node is down; empty where it is not.

    Requeued before that, it cannot complete until Slurm declares the node down, and Slurm 22.05
    then forgets to clean up: the next attempt's steps fail ("Invalid generic resource").
    """
    waited_s = now - incident.detected_at
    gone = [node.name for node in nodes if node.name in facts.job.nodes and is_lost(node)]
    if gone and waited_s < settings.node_down_s:
        return f"{','.join(gone)} does not answer Slurm, which requeues the job itself"
    if incident.cause == SILENT and waited_s < settings.silent_node_s:
        return f"{incident.reason}; Slurm has {settings.silent_node_s:g} s to notice it too"
    return ""


def supervisor_end(job: Job) -> str:
    """How a job that is over lost its supervisor, from where nobody asked for it; empty if not."""
    if "COMPLETING" in job.flags:
        return ""
    if job.state in {"OUT_OF_MEMORY", "NODE_FAIL"}:
        return f"its supervisor was killed ({job.state})"
    if job.state == "FAILED" and job.signal in _ACCIDENTS:
        return f"its supervisor was killed (signal {job.signal})"
    return ""


def misdated(incident: Incident, *, began_at: float, now: float) -> str:
    """Why *incident* cannot be one of the attempt that began then; empty where it can."""
    dated = f"its incident is dated {incident.detected_at:.12g}"
    if incident.detected_at < began_at - CLOCK_SKEW_S:
        return f"{dated}, before this attempt; not used"
    if incident.detected_at > now + CLOCK_SKEW_S:
        return f"{dated}, in the future; not used"
    return ""


def is_lost(node: Node) -> bool:
    """Whether Slurm gets no answer from *node*."""
    return node.state == "DOWN" or "NOT_RESPONDING" in node.flags


def is_accusing(incident: Incident) -> bool:
    """Whether the suspects of *incident* should be kept from the next attempt."""
    stalled = incident.kind == "stall" and incident.retry == "same-nodes"
    return incident.retry == "exclude-node" or stalled


def exclusion(
    facts: JobFacts,
    accused: Iterable[str],
    nodes: Sequence[Node],
    settings: RequeueSettings,
    now: float,
) -> Exclusion:
    """
    Everything that stays excluded from the job, and the *accused* as far as there is room.

    What its owner excluded always stays. The accused come first, then what we excluded before,
    newest first, while it is not expired and the job can still be placed: a job that can never
    start is worse than one that may meet a suspect again.
    """
    job = facts.job
    ours = [one for one in facts.ours if one.node in job.excluded]
    theirs = [node for node in job.excluded if node not in {one.node for one in ours}]
    still = [one for one in ours if one.at > now - settings.exclude_for_s]
    earlier = [one.node for one in sorted(still, key=lambda one: -one.at)]
    known = {node.name for node in nodes}
    chosen: list[str] = []
    left_out: list[str] = []
    for node in dict.fromkeys([*accused, *earlier]):
        if node in theirs:
            continue
        if node not in known:
            left_out.append(f"{node!r} is no node of this cluster")
        elif node in job.required:
            left_out.append(f"{node} was asked for by name")
        elif not is_placeable(job, nodes, without={*theirs, *chosen, node}):
            left_out.append(f"without {node} the job could not be placed")
        else:
            chosen.append(node)
    return Exclusion((*theirs, *chosen), tuple(left_out))


def is_placeable(job: Job, nodes: Iterable[Node], *, without: Collection[str]) -> bool:
    """Whether one of the job's partitions has as many usable nodes as the job needs."""
    usable = [node for node in nodes if node.is_usable and node.name not in without]
    return any(
        sum(partition in node.partitions for node in usable) >= job.nodes_needed
        for partition in job.partition.split(",")
    )
