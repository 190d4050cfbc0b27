"""
What `squeue --json`, `sinfo --json` and `scontrol show nodes --json` print -> Jobs and Nodes.

Pure. JSON because a user's own text (a Comment, a job name) can pretend to be other fields in
every textual form. The shapes differ by version, 22.05 to 26.05: a state is a word or a list, a
number is bare, null, or {set, infinite, number}, a list of nodes is text or a struct.
"""

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from slurm_resilience.errors import SlurmError, SlurmSilentError
from slurm_resilience.slurm.hostlist import expand
from slurm_resilience.slurm.states import node_state
from slurm_resilience.slurm.values import Job, Node

_BASES = frozenset({
    "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL",
    "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
})  # fmt: skip
_BENEATH = {
    "CONFIGURING": "RUNNING", "RESIZING": "RUNNING", "SIGNALING": "RUNNING", "STOPPED": "RUNNING",
    "REQUEUED": "PENDING", "REQUEUE_HOLD": "PENDING", "REQUEUE_FED": "PENDING",
    "SPECIAL_EXIT": "PENDING", "RESV_DEL_HOLD": "PENDING",
}  # fmt: skip
"""The base state where Slurm (before 23.11) prints a flag in its place. COMPLETING hides one of
several and stays itself."""

_WORKS = frozenset({"IDLE", "ALLOCATED", "MIXED"})
_SPOKEN_FOR = frozenset({
    "DRAIN", "FAIL", "INVALID_REG", "MAINTENANCE", "REBOOT_ISSUED", "REBOOT_REQUESTED",
})  # fmt: skip
"""Somebody, or Slurm, has set the node apart, and the reason says why."""


class _Counted(msgspec.Struct):
    """A number that Slurm wraps so that "not set" and "unlimited" can be told."""

    set: bool = True
    infinite: bool = False
    number: float = 0


class _Listed(msgspec.Struct):
    """Nodes as a struct; `list` is the text."""

    list: str = ""


class _Signal(msgspec.Struct):
    """A signal; its number is `id` from 24.05 on."""

    id: int | float | _Counted | None = None
    signal_id: int | float | _Counted | None = None


class _Exit(msgspec.Struct):
    """How a job ended, from 23.02 on; before that it is what wait(2) says."""

    signal: _Signal = msgspec.field(default_factory=_Signal)


_Number = int | float | _Counted | None
_Names = str | list[str] | _Listed | None


class RawJob(msgspec.Struct):
    """A job in Slurm's own field names and any of its shapes."""

    job_id: int
    job_state: str | list[str]
    user_id: int
    array_job_id: _Number = None
    array_task_id: _Number = None
    array_task_string: str | None = None
    het_job_id: _Number = None
    state_reason: str | None = None
    restart_cnt: _Number = None
    nodes: _Names = None
    node_count: _Number = None
    excluded_nodes: _Names = None
    required_nodes: _Names = None
    comment: str | None = None
    partition: str | None = None
    current_working_directory: str | None = None
    standard_output: str | None = None
    standard_error: str | None = None
    requeue: bool = True
    priority: _Number = None
    hold: bool | None = None
    eligible_time: _Number = None
    start_time: _Number = None
    end_time: _Number = None
    preempt_time: _Number = None
    exit_code: int | _Exit | None = None


class RawNode(msgspec.Struct):
    """A node in Slurm's own field names and any of its shapes."""

    name: str
    state: str | list[str]
    state_flags: list[str] = []
    reason: str | None = None
    reason_changed_at: _Number = None
    boot_time: _Number = None
    partitions: list[str] = []


class _Trouble(msgspec.Struct):
    description: str | None = None
    error: str | None = None


class _Answer(msgspec.Struct):
    errors: list[_Trouble] = []


class _Jobs(_Answer):
    jobs: list[RawJob] = []


class _Nodes(_Answer):
    nodes: list[RawNode] = []


_A = TypeVar("_A", bound=_Answer)


def read_jobs(text: bytes) -> tuple[Job, ...]:
    """
    Jobs from the JSON of `squeue --json`; the parts of a heterogeneous job become its leader.

    Raises `SlurmSilentError` where the document carries errors: squeue 22.05 whose slurmctld does
    not answer exits 0 and prints *no jobs* beside them. `SlurmError` where it is no such document.
    """
    document = _decoded(text, _Jobs, "squeue --json")
    try:
        return tuple(jobs_of(document.jobs))
    except ValueError as error:
        raise SlurmError(f"squeue --json: {error}") from error


def read_nodes(text: bytes) -> tuple[Node, ...]:
    """Nodes from JSON; raises as `read_jobs`."""
    document = _decoded(text, _Nodes, "nodes as JSON")
    return tuple(node_of(raw) for raw in document.nodes)


def _decoded(text: bytes, kind: type[_A], what: str) -> _A:
    try:
        # A user may write any bytes into a Comment, and Slurm prints them as they are.
        answer = msgspec.json.decode(text.decode("utf-8", "replace"), type=kind)
    except msgspec.DecodeError as error:
        raise SlurmError(f"{what}: not understood: {error}") from error
    for trouble in answer.errors:
        raise SlurmSilentError(f"{what}: {trouble.description or trouble.error or 'failed'}")
    return answer


def jobs_of(raws: Iterable[RawJob]) -> Iterator[Job]:
    """Jobs, the parts of a heterogeneous one joined; `ValueError` where a list of nodes is none."""
    jobs: dict[int, Job] = {}
    parts: list[tuple[int, Job]] = []
    for raw in raws:
        leader = int(_number(raw.het_job_id) or 0)
        if leader and leader != raw.job_id:
            parts.append((leader, _job(raw)))
        else:
            jobs[raw.job_id] = _job(raw)
    for leader, part in parts:
        if whole := jobs.get(leader):
            jobs[leader] = msgspec.structs.replace(
                whole,
                nodes=tuple(dict.fromkeys([*whole.nodes, *part.nodes])),
                nodes_needed=whole.nodes_needed + part.nodes_needed,
                required=tuple(dict.fromkeys([*whole.required, *part.required])),
            )
    yield from jobs.values()


def _job(raw: RawJob) -> Job:
    state, flags = _state(raw.job_state)
    priority = _number(raw.priority)
    eligible = _number(raw.eligible_time)
    return Job(
        id=_id(raw),
        state=state,
        flags=flags,
        reason=raw.state_reason or "",
        user_id=raw.user_id,
        restarts=int(_number(raw.restart_cnt) or 0),
        nodes=() if state == "PENDING" else _names(raw.nodes),
        nodes_needed=max(1, int(_number(raw.node_count) or 1)),
        excluded=_names(raw.excluded_nodes),
        required=_names(raw.required_nodes),
        comment=raw.comment or "",
        partition=raw.partition or "",
        work_dir=raw.current_working_directory or "",
        outputs=tuple(dict.fromkeys(filter(None, (raw.standard_output, raw.standard_error)))),
        can_requeue=raw.requeue,
        held=bool(raw.hold) or priority == 0,
        begins_at=(eligible or None) if state == "PENDING" else None,
        started_at=None if state == "PENDING" else _number(raw.start_time) or None,
        ends_at=(_number(raw.end_time) or None) if state == "RUNNING" else None,
        signal=None if state in {"PENDING", "RUNNING"} else _signal(raw.exit_code),
        preempted_at=_number(raw.preempt_time) or None,
    )


def _id(raw: RawJob) -> str:
    array = int(_number(raw.array_job_id) or 0)
    if not array:
        return str(raw.job_id)
    task = _number(raw.array_task_id)
    # Tasks that never started share one record; it is not a job that anything can be done to.
    return (
        f"{array}_[{raw.array_task_string or ''}]" if task is None else f"{array}_{int(task)}"
    )


def node_of(raw: RawNode) -> Node:
    """A node."""
    words = [raw.state] if isinstance(raw.state, str) else raw.state
    base, flags = node_state([*words, *raw.state_flags])
    works = base in _WORKS and not flags & _SPOKEN_FOR
    return Node(
        name=raw.name,
        state=base,
        flags=flags,
        reason="" if works else raw.reason or "",
        reason_at=None if works else _number(raw.reason_changed_at) or None,
        boot_time=_number(raw.boot_time) or None,
        partitions=tuple(raw.partitions),
    )


def _state(words: str | list[str]) -> tuple[str, frozenset[str]]:
    found = [words] if isinstance(words, str) else words
    base = next((word for word in found if word in _BASES), None)
    flags = frozenset(word for word in found if word != base)
    if base is None and len(flags) == 1:
        (flag,) = flags
        base = _BENEATH.get(flag, flag)
    return base or "UNKNOWN", flags


def _signal(code: int | _Exit | None) -> int | None:
    if isinstance(code, _Exit):
        number = _number(code.signal.id) or _number(code.signal.signal_id)
        return int(number) if number else None
    # A shell's 137 for a child that was killed is a status, not a signal.
    return os.WTERMSIG(code) if code and os.WIFSIGNALED(code) else None


def _number(value: _Number) -> float | None:
    if isinstance(value, _Counted):
        return value.number if value.set and not value.infinite else None
    return value


def _names(value: _Names) -> tuple[str, ...]:
    if isinstance(value, _Listed):
        value = value.list
    if isinstance(value, list):
        value = ",".join(value)
    return expand(value) if value else ()
