"""The controller: tick after tick, brings jobs back without the faulty node."""

import logging
import select
import signal
import time
from collections.abc import Callable

from slurm_resilience.comment import takes_part
from slurm_resilience.errors import ResilienceError, SlurmError, SlurmSilentError
from slurm_resilience.requeue.act import bring_on
from slurm_resilience.requeue.facts import JobFacts
from slurm_resilience.requeue.incidents import History, Incidents
from slurm_resilience.requeue.mark import marked
from slurm_resilience.requeue.memory import Memory
from slurm_resilience.requeue.policy import Decision, GiveUp, Leave, Wait
from slurm_resilience.requeue.prose import line
from slurm_resilience.requeue.rules import supervisor_end
from slurm_resilience.requeue.settings import RequeueSettings
from slurm_resilience.signals import caught
from slurm_resilience.slurm.door import Slurm
from slurm_resilience.slurm.values import Job, Node

log = logging.getLogger(__name__)

SHORTEST_PAUSE_S = 0.05
POLITENESS = 2.0
"""Pause at least this many times as long as the last look took."""


class Controller:
    """Decides about every job that takes part, once a tick; knows nothing a restart would lose."""

    def __init__(  # noqa: PLR0913 - its parts, by name
        self,
        *,
        slurm: Slurm,
        memory: Memory,
        incidents: Incidents,
        settings: RequeueSettings,
        user_id: int | None = None,
        dry_run: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """*user_id*: see to that user's jobs alone. *dry_run*: say what would be done."""
        self._slurm = slurm
        self._memory = memory
        self._incidents = incidents
        self._settings = settings
        self._user_id = user_id
        self._dry_run = dry_run
        self._now = now
        self._said: dict[str, str] = {}
        self._waiting: dict[str, tuple[float, float]] = {}

    def tick(self) -> float:
        """
        Look once at everything, take every step that can be taken; the pause that should follow.

        Raises `SlurmError` where Slurm could not be read: nothing was changed then.
        """
        began = time.monotonic()
        jobs = [job for job in self._slurm.jobs(user_id=self._user_id) if _is_ours(job)]
        self._memory.saw(jobs, self._now())
        looked_s = time.monotonic() - began
        histories = self._incidents.read(job for job in jobs if _may_need_us(job))
        busy = {job.id: histories[job.id] for job in jobs if _needs_us(job, histories)}
        if busy:
            began = time.monotonic()
            nodes = self._slurm.nodes()
            looked_s += time.monotonic() - began
            for job in jobs:
                if job.id in busy:
                    self._see_to(job, busy[job.id], nodes)
        self._forget({job.id for job in jobs})
        return self._pause_s(looked_s)

    def _see_to(self, job: Job, history: History, nodes: tuple[Node, ...]) -> None:
        def known(job: Job) -> JobFacts:
            return self._memory.recall(job, history, self._settings, self._now())

        try:
            for facts, decision in bring_on(
                job, known, nodes, self._slurm, self._settings, self._now
            ):
                self._hear(facts, decision)
                if self._dry_run:
                    break
        except SlurmSilentError:
            raise
        except ResilienceError as error:
            self._say(job.id, f"left as it is: {error}", logging.WARNING)

    def _hear(self, facts: JobFacts, decision: Decision) -> None:
        """Say a decision, note it, and know whether the job is waited for."""
        job = facts.job
        self._memory.keep_refusal(facts)
        if isinstance(decision, Wait):
            since, _ = self._waiting.get(job.id, (time.monotonic(), 0.0))
            self._waiting[job.id] = since, decision.for_s
        else:
            self._waiting.pop(job.id, None)
        level = logging.WARNING if isinstance(decision, GiveUp) else logging.INFO
        would = "would: " if self._dry_run else ""
        self._say(job.id, f"attempt {job.restarts}: {would}{line(decision)}", level)
        if not self._dry_run and not isinstance(decision, Wait | Leave | GiveUp):
            self._memory.keep(facts, decision, self._now())

    def _say(self, job: str, text: str, level: int) -> None:
        if self._said.get(job) != text:
            self._said[job] = text
            log.log(level, "job %s: %s", job, text)

    def _forget(self, known: set[str]) -> None:
        self._said = {job: text for job, text in self._said.items() if job in known}
        self._waiting = {job: wait for job, wait in self._waiting.items() if job in known}

    def _pause_s(self, looked_s: float) -> float:
        now = time.monotonic()
        waits_s = [for_s or (now - since) / 10 for since, for_s in self._waiting.values()]
        pause_s = min([self._settings.tick_s, *waits_s])
        return max(pause_s, SHORTEST_PAUSE_S, looked_s * POLITENESS)


def serve(controller: Controller, settings: RequeueSettings) -> None:
    """Tick until SIGTERM or SIGINT; what Slurm does not answer is asked again."""
    silent = ""
    with caught(signal.SIGTERM, signal.SIGINT) as signals:
        while signal.SIGTERM not in signals and signal.SIGINT not in signals:
            try:
                pause_s = controller.tick()
            except SlurmError as error:
                if not silent:
                    log.warning("nothing is changed until Slurm answers: %s", error)
                silent, pause_s = str(error), settings.tick_s
            else:
                if silent:
                    log.info("Slurm answers again")
                silent = ""
            select.select([signals.wakeup], [], [], pause_s)


def _is_ours(job: Job) -> bool:
    # Marked: its owner may have taken the other word out while we brought it back.
    return takes_part(job.comment) or marked(job.comment) is not None


def _may_need_us(job: Job) -> bool:
    if "COMPLETING" in job.flags:
        return marked(job.comment) is not None
    is_back = job.is_pending and job.restarts > 0
    return job.is_running or is_back or bool(supervisor_end(job))


def _needs_us(job: Job, histories: dict[str, History]) -> bool:
    history = histories.get(job.id)
    if history is None:
        return False
    return bool(
        history.incidents
        or history.untrusted
        or history.unread
        or marked(job.comment) is not None
        or not job.is_running
    )
