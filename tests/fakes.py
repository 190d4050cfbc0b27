"""
A Slurm for tests of pure policy: small, stateful, and as contrary as the real one was seen to be.

Seen on 22.05.8: excluded nodes are refused while the job runs; a begin time set while it completes
is forgotten; an attempt that starts in the second in which the last one ended on the same node
fails the whole job; a requeue raises the restart count at once, the job is pending only after its nodes
are cleaned up, and may then not start for 121 s; a hold by `requeuehold` reads JobHeldUser.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from slurm_resilience.errors import SlurmError
from slurm_resilience.slurm.values import Job, Node

REQUEUE_DELAY_S = 121.0


class FakeSlurm:
    """Jobs and nodes; time passes only in `advance`."""

    def __init__(self, jobs: Sequence[Job], nodes: Sequence[Node], now: float = 1000.0) -> None:
        self.now = now
        self.requeues: list[tuple[str, int]] = []
        """Job and attempt of each requeue that was granted."""
        self.starts: list[tuple[str, int, tuple[str, ...]]] = []
        """Job, attempt and nodes of each start."""
        self._jobs = {job.id: job for job in jobs}
        self._nodes = {node.name: node for node in nodes}
        self._ended: dict[str, tuple[int, tuple[str, ...]]] = {}

    def clock(self) -> float:
        return self.now

    def advance(self, seconds: float = 1.0) -> None:
        """Let time pass: what completes becomes pending, what may start does."""
        self.now += seconds
        for job in self._jobs.values():
            if "COMPLETING" in job.flags:
                begins_at = self.now + REQUEUE_DELAY_S
                self._set(job, flags=frozenset(), nodes=(), begins_at=begins_at)
            elif job.is_pending and not job.held and (job.begins_at or 0) <= self.now:
                self._start(job)

    def lose(self, node: str) -> None:
        """A node dies; Slurm requeues what ran there."""
        self._nodes[node] = replace(
            self._nodes[node], state="DOWN", flags=frozenset({"NOT_RESPONDING"})
        )
        for job in self._jobs.values():
            if node in job.nodes:
                self._back(job)

    def preempt(self, job: str) -> None:
        """Slurm itself requeues a running job."""
        self._back(self._known(job))

    def hold(self, job: str, *, admin: bool = False) -> None:
        """Somebody holds a job."""
        reason = "JobHeldAdmin" if admin else "JobHeldUser"
        self._set(self._known(job), held=True, reason=reason)

    # ── what the door asks ──

    def version(self) -> tuple[int, int]:
        return 22, 5

    def jobs(self, *, user_id: int | None = None) -> tuple[Job, ...]:
        return tuple(job for job in self._jobs.values() if user_id in {None, job.user_id})

    def job(self, job: str) -> Job | None:
        return self._jobs.get(job)

    def nodes(self, names: Sequence[str] = ()) -> tuple[Node, ...]:
        return tuple(node for node in self._nodes.values() if not names or node.name in names)

    def configuration(self) -> dict[str, str]:
        return {"SLURM_VERSION": "22.05.8"}

    def drain(self, node: str, *, reason: str) -> None:
        self._nodes[node] = replace(
            self._nodes[node], flags=self._nodes[node].flags | {"DRAIN"}, reason=reason
        )

    def resume(self, node: str) -> None:
        self._nodes[node] = replace(
            self._nodes[node], flags=self._nodes[node].flags - {"DRAIN"}, reason=""
        )

    def requeue(self, job: str, *, hold: bool) -> None:
        known = self._known(job)
        if not known.can_requeue:
            raise SlurmError("Requested operation is presently disabled")
        if known.state == "PENDING":
            raise SlurmError("Job is pending execution")
        self.requeues.append((job, known.restarts))
        self._back(known)
        if hold:
            self.hold(job)

    def release(self, job: str) -> None:
        self._set(self._known(job), held=False, reason="None")

    def set_excluded(self, job: str, nodes: Sequence[str]) -> None:
        known = self._known(job)
        if known.state != "PENDING":
            raise SlurmError("Job is no longer pending execution")
        if not set(nodes) <= self._nodes.keys():
            raise SlurmError("Invalid node name specified")
        self._set(known, excluded=tuple(nodes))

    def start_now(self, job: str) -> None:
        self._set(self._known(job), begins_at=self.now)

    def set_comment(self, job: str, comment: str) -> None:
        self._set(self._known(job), comment=comment)

    # ── how it does it ──

    def _known(self, job: str) -> Job:
        if job not in self._jobs:
            raise SlurmError(f"Invalid job id specified for job {job}")
        return self._jobs[job]

    def _set(self, job: Job, **changes: object) -> None:
        self._jobs[job.id] = replace(self._jobs[job.id], **changes)

    def _back(self, job: Job) -> None:
        self._ended[job.id] = (int(self.now), job.nodes)
        self._set(
            job,
            state="PENDING",
            flags=frozenset({"COMPLETING"}),
            restarts=job.restarts + 1,
            started_at=None,
            reason="BeginTime",
        )

    def _start(self, job: Job) -> None:
        free = [
            node.name
            for node in self._nodes.values()
            if node.is_usable
            and node.name not in job.excluded
            and job.partition in node.partitions
        ]
        if len(free) < job.nodes_needed:
            return
        nodes = tuple(free[: job.nodes_needed])
        self._set(job, state="RUNNING", reason="None", nodes=nodes, started_at=self.now)
        self.starts.append((job.id, job.restarts, nodes))
        ended_at, ended_on = self._ended.get(job.id, (0, ()))
        if ended_at == int(self.now) and set(ended_on) & set(nodes):
            self._set(job, state="FAILED", reason="JobLaunchFailure")
