"""
One attempt from its first line to its end: listens to the agents, judges, ends what cannot go on.

A state is a method that looks at what there is and returns the next state:

    running -> settling   a node's command failed: let the others tell theirs
            -> dumping    no progress: ask every rank where it is
            -> ending     cancelled, or finished and not leaving: ranks have their grace
    settling, dumping -> ending, once the incident is written: what is left is killed
"""

import logging
import signal
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from slurm_resilience.clock import SteadyClock
from slurm_resilience.diagnosis.facts import NodeEnd
from slurm_resilience.diagnosis.verdict import diagnose
from slurm_resilience.incident import Incident
from slurm_resilience.launch import incidents
from slurm_resilience.launch.hub import Event, Hub, Joined, Said
from slurm_resilience.launch.incidents import Attempt
from slurm_resilience.launch.job import ThisJob
from slurm_resilience.launch.outcome import Outcome
from slurm_resilience.launch.records import RECORD_S, Records
from slurm_resilience.launch.step import Step
from slurm_resilience.signals import Caught
from slurm_resilience.watch import facts
from slurm_resilience.watch.messages import (
    Dumped,
    Exited,
    Notice,
    Order,
    Report,
    Stack,
    Upward,
)
from slurm_resilience.watch.policy import End, Finish, GoOn, Stop, decide
from slurm_resilience.watch.rules import Finding, evidence, judge, quiet_s
from slurm_resilience.watch.settings import WatchSettings

TICK_S = 0.2
STAY_EVERY_S = 5.0
"""Agents end their ranks when they hear nothing for long."""
SUMMARY_EVERY_S = 2.0
ANSWER_S = 2.0
"""Beside the time that ranks have, for agents to ask and to send."""
SRUN_S = 5.0
"""For srun to end a step whose agents did not."""
LAST_WORDS_S = 2.0
ASKED = {
    "time-limit": "the time limit comes near",
    "preemption": "Slurm asks the step to stop",
    None: "the end comes near",
}
"""What is known when a notice comes: a step hears of a preemption, a cancel and the loss of a
node by the same signal. Slurm's record of the job tells them apart, later."""

log = logging.getLogger(__name__)


class State(Protocol):
    """Looks at what there is; returns what comes next."""

    def __call__(self, now: float, /) -> "State": ...


class Supervisor:
    """Watches one attempt."""

    def __init__(
        self,
        this: ThisJob,
        nodes: Sequence[str],
        settings: WatchSettings,
        doors: "Doors",
    ) -> None:
        self._this = this
        self._settings = settings
        self._hub, self._step = doors.hub, doors.step
        self._records, self._flags = doors.records, doors.flags
        self._clock = SteadyClock()
        now = self._clock()
        self._job = facts.began(now, nodes)
        self._state: State = self._running
        self._ends: dict[str, NodeEnd] = {}
        self._diagnosed = 0
        self._stacks: dict[int, str] = {}
        self._dumping_nodes: set[str] = set()
        self._cause: Finding | None = None
        self._until = self._said_at = self._summed_at = now
        self._incident: Incident | None = None
        self._is_finished = self._is_stopping = False
        self._farewell = Order("end")

    def run(self) -> Outcome:
        """Watch until the step is over."""
        self._hub.watch(self._flags.wakeup)
        while (status := self._step.poll()) is None:
            self.tick()
        until = self._clock() + LAST_WORDS_S
        while self._hub.has_agents and self._clock() < until:
            self._listen(self._clock())
        now = self._clock()
        return Outcome(
            attempt=self._attempt(now),
            status=status,
            job=self._job,
            ends=tuple(self._ends.values()),
            launcher=self._step.lines(),
            evidence=tuple(evidence(self._job, self._settings, now)),
            incident=self._incident,
            is_terminated=signal.SIGTERM in self._flags,
            is_finished=self._is_finished,
        )

    def tick(self) -> None:
        """One look at everything; takes up to `TICK_S`."""
        now = self._clock()
        self._listen(now)
        self._flags.drain()
        if now - self._said_at >= STAY_EVERY_S:
            self._said_at = now
            self._hub.say(Order("stay"))
        if now - self._summed_at >= max(SUMMARY_EVERY_S, self._settings.report_s):
            self._summed_at = now
            self._records.heartbeats(incidents.summary(self._attempt(now), self._job))
        self._state = self._state(now)

    # ── states ──────────────────────────────────────────────────────────────────────────────

    def _running(self, now: float) -> State:
        if signal.SIGTERM in self._flags:
            return self._end(now)
        if signal.SIGUSR2 in self._flags:
            self._job = facts.noticed(self._job, "time-limit")
        if any(end.status for end in self._ends.values()):
            self._until = now + self._settings.settle_s
            return self._settling
        decision = decide(judge(self._job, self._settings, now), self._job.notice)
        match decision:
            case GoOn():
                return self._running
            case Stop():
                self._stop()
                return self._running
            case Finish(because):
                log.warning("%s; ending them", because.detail)
                self._is_finished = True
                return self._end(now)
            case End(cause):
                return self._dump(cause, now)

    def _settling(self, now: float) -> State:
        if signal.SIGTERM in self._flags:
            return self._end(now)
        if len(self._ends) > self._diagnosed:
            self._diagnosed = len(self._ends)
            if diagnose(tuple(self._ends.values()), nodes=self._job.nodes).is_clear:
                self._until = now
        if now < self._until and self._job.awaited:
            return self._settling
        ends, found = tuple(self._ends.values()), evidence(self._job, self._settings, now)
        self._conclude(incidents.crash(self._attempt(now), self._job, ends, (), found))
        return self._kill(now)

    def _dumping(self, now: float) -> State:
        if signal.SIGTERM in self._flags:
            return self._end(now)
        if self._cause is None or (now < self._until and self._dumping_nodes):
            return self._dumping
        for rank, text in self._stacks.items():
            self._records.stack(rank, text or "no answer\n")
        found = [
            *evidence(self._job, self._settings, now),
            *incidents.stack_findings(self._job, self._stacks),
        ]
        self._conclude(incidents.stall(self._attempt(now), self._job, self._cause, found))
        return self._kill(now)

    def _ending(self, now: float) -> State:
        if not any(self._answers(node, now) for node in self._job.awaited):
            # What is left of the step does not hear us; srun may still reach it.
            self._until = min(self._until, now + LAST_WORDS_S)
        if now < self._until:
            return self._ending
        log.warning("the step does not end; killing it")
        self._step.terminate()
        self._until = now + SRUN_S
        return self._killing

    def _killing(self, now: float) -> State:
        if now < self._until:
            return self._killing
        self._step.kill()
        self._until = now + SRUN_S
        return self._killing

    # ── from state to state ─────────────────────────────────────────────────────────────────

    def _stop(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            log.info("job %s: %s: ranks save and stop", self._this.id, ASKED[self._job.notice])
            self._hub.say(Order("stop"))

    def _dump(self, cause: Finding, now: float) -> State:
        self._cause = cause
        self._until = now + self._settings.dump_s + ANSWER_S
        self._dumping_nodes = {node for node in self._job.awaited if self._answers(node, now)}
        self._hub.say(Order("dump"))
        return self._dumping

    def _end(self, now: float) -> State:
        self._hub.say(self._farewell)
        self._until = now + self._settings.grace_s + SRUN_S
        return self._ending

    def _kill(self, now: float) -> State:
        """
        What the ranks knew is kept, and who is stuck heeds no TERM. One that was stopped would
        go on at Slurm's SIGCONT, and save.
        """
        self._farewell = Order("kill")
        return self._end(now)

    def _answers(self, node: str, now: float) -> bool:
        seen = self._job.nodes[node]
        if not seen.connected or seen.heard_at is None:
            return False
        return now - seen.heard_at <= quiet_s(self._settings)

    def _conclude(self, incident: Incident) -> None:
        self._incident = incident
        self._records.incident(incident, wait_s=RECORD_S)
        log.error("%s job %s: %s", incident.kind.upper(), self._this.id, incident.reason)

    # ── what agents say ─────────────────────────────────────────────────────────────────────

    def _listen(self, now: float) -> None:
        for event in self._hub.tick(now, TICK_S):
            self._take(event, now)

    def _take(self, event: Event, now: float) -> None:
        if isinstance(event, Said):
            self._hear(event.node, event.message, now)
        elif isinstance(event, Joined):
            self._job = facts.connected(self._job, event.node, now)
            if self._state in {self._ending, self._killing}:
                self._hub.say(self._farewell, event.node)
            elif self._is_stopping:
                self._hub.say(Order("stop"), event.node)
        else:
            self._job = facts.disconnected(self._job, event.node)
            self._dumping_nodes.discard(event.node)

    def _hear(self, node: str, message: Upward, now: float) -> None:
        match message:
            case Report(report):
                report = msgspec.structs.replace(report, node=node)
                self._job = facts.heard(self._job, report, now)
            case Notice():
                self._job = facts.noticed(self._job, "preemption")
            case Stack(rank, text):
                self._stacks[rank] = text
            case Dumped():
                self._dumping_nodes.discard(node)
            case Exited(status, stderr, stdout, errors):
                self._job = facts.ended(self._job, node)
                self._ends[node] = NodeEnd(node, status, stderr, stdout, errors)
            case _:
                pass  # a second Hello says nothing new

    def _attempt(self, now: float) -> Attempt:
        return Attempt(self._this.id, self._this.attempt, now, time.time())


class Doors(msgspec.Struct, frozen=True):
    """What a supervisor listens to and writes to."""

    hub: Hub
    step: Step
    records: Records
    flags: Caught
