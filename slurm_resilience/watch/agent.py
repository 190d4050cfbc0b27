"""
`slurm-resilience agent`: one a node, between the supervisor and this node's ranks.

What travels where:

    ranks -> agent       heartbeat files, stack files, error files (`watch.heartbeat`)
    agent -> ranks       the stop word in the heartbeat file; a signal that asks for stacks
    sampler -> agent     GPUs, links, kernel log (`watch.sampler`), over a pipe
    agent -> keeper      "end", over a pipe; its closing means the agent is dead
    agent -> supervisor  reports, notices, stacks, how the command ended (`watch.messages`)
    supervisor -> agent  stop, dump, end, kill, over the same line

An agent without a supervisor ends its ranks: an orphan must not burn GPUs.
"""

import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_resilience.clock import SteadyClock
from slurm_resilience.errors import LaunchError
from slurm_resilience.signals import Caught, caught
from slurm_resilience.watch import assignment as assigned
from slurm_resilience.watch.assignment import Assignment, Place
from slurm_resilience.watch.beats import Beats, kept, rank_facts
from slurm_resilience.watch.command import Command
from slurm_resilience.watch.dump import Dump
from slurm_resilience.watch.environment import (
    Surroundings,
    for_ranks,
    is_tracked_by_parents,
    torch_version,
)
from slurm_resilience.watch.facts import NodeFacts
from slurm_resilience.watch.hardware import Hardware
from slurm_resilience.watch.interfaces import interface_of
from slurm_resilience.watch.line import Line
from slurm_resilience.watch.messages import (
    Dumped,
    Exited,
    Hello,
    Notice,
    Order,
    Report,
    fitted,
)
from slurm_resilience.watch.processes import adopt_orphans, read_process
from slurm_resilience.watch.torchrun import Meeting, ranks_here, with_meeting, without_torchrun

TICK_S = 0.2
JOIN_S = 60.0
LAST_WORDS_S = 5.0
"""For what was said last to leave, where the line is down."""
STOP_EVERY_S = 0.5
"""Ranks that start after the notice find the stop word too."""

log = logging.getLogger(__name__)


def run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run *command* on this node until it or the job ends; its exit status."""
    assignment, place = assigned.read(environ)
    adopt_orphans()
    ignored = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    with (
        kept() as beats,
        caught(signal.SIGTERM, *ignored) as flags,
    ):
        agent = Agent(assignment, place, beats, flags)
        agent.join()
        agent.start(command, environ)
        while not agent.is_over:
            agent.tick()
        return agent.close()


class Agent:
    """One node's part of one attempt."""

    def __init__(
        self, assignment: Assignment, place: Place, beats: Beats, flags: Caught
    ) -> None:
        self._assignment = assignment
        self._settings = assignment.settings
        self._place = place
        self._beats = beats
        self._flags = flags
        self._clock = SteadyClock()
        now = self._clock()
        self._line = Line(
            (place.supervisor, assignment.supervisor_port),
            Hello(assignment.token, place.node),
            now,
        )
        self._hardware = Hardware(self._settings.gpu_s)
        self._command: Command | None = None
        self._dump: Dump | None = None
        self._exited: Exited | None = None
        self._exited_at = now
        self._is_noticed = self._is_stopping = self._is_ending = False
        self._reported_at = self._stopped_at = now - self._settings.report_s

    def join(self) -> None:
        """Wait for the supervisor's line; `LaunchError` where it cannot be reached."""
        until = self._clock() + JOIN_S
        while not self._line.is_up:
            now = self._clock()
            if now > until:
                address = f"{self._place.supervisor} port {self._assignment.supervisor_port}"
                raise LaunchError(
                    f"{self._place.node} cannot reach the supervisor at {address}; "
                    "nodes of a job must be able to connect to each other"
                )
            self._line.tick(now, TICK_S, self._flags.wakeup)

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start the user's command."""
        assignment, place = self._assignment, self._place
        here = assignment.ranks_per_node or ranks_here(environ)
        meeting = Meeting(
            nodes=assignment.nodes,
            node_rank=place.node_rank,
            address=assignment.meeting_address or place.supervisor,
            port=assignment.meeting_port,
            ranks_here=here,
        )
        surroundings = Surroundings(
            heartbeats=self._beats.directory,
            ranks_here=here,
            interface=interface_of(self._line.address) if assignment.nodes > 1 else None,
            shield=is_tracked_by_parents(Path("/proc/self/cgroup").read_text()),
            torch=torch_version(),
        )
        self._command = Command(
            with_meeting(command, meeting),
            {
                **without_torchrun(command, meeting),
                **for_ranks(environ, assignment, surroundings),
            },
            grace_s=self._settings.grace_s,
            shield=surroundings.shield,
        )

    @property
    def is_over(self) -> bool:
        """
        Whether the command ended and the supervisor was told.

        After a failure the agent stays until it is told to end: an srun whose task fails may
        end the others before they have said what they know.
        """
        if self._exited is None or not (self._is_ending or self._exited.status == 0):
            return False
        if self._is_ending and not self._line.is_up:
            return True
        return self._line.is_flushed or self._clock() - self._exited_at > LAST_WORDS_S

    def tick(self) -> None:
        """One look at everything; takes up to `TICK_S`."""
        now = self._clock()
        orders = self._line.tick(now, TICK_S, self._flags.wakeup)
        self._flags.drain()
        for order in orders:
            self._obey(order, now)
        self._heed_signals()
        self._hardware.tick(now)
        self._report(now)
        # Ranks that are being ended must not begin to save.
        if self._is_stopping and not self._is_ending and now - self._stopped_at >= STOP_EVERY_S:
            self._stopped_at = now
            self._beats.stop()
        self._send_stacks(now)
        if now - self._line.heard_at > self._settings.orphan_s and not self._is_ending:
            log.warning("the supervisor is silent; %s ends its ranks", self._place.node)
            self._is_ending = True
        if self._is_ending and self._command is not None:
            self._command.ask_to_end()
        self._look_for_end()

    def close(self) -> int:
        """Let go of everything; the command's status."""
        self._hardware.close()
        self._line.close()
        return self._exited.status if self._exited else 1

    def _obey(self, order: Order, now: float) -> None:
        if order.word == "stop":
            self._is_stopping = True
        elif order.word == "end":
            self._is_ending = True
        elif order.word == "kill":
            self._is_ending = True
            if self._command is not None:
                self._command.kill()
        elif order.word == "dump":
            self._hardware.hurry()
            self._dump = Dump(
                self._beats.directory,
                self._beats.read(),
                now=now,
                wait_s=self._settings.dump_s,
            )

    def _heed_signals(self) -> None:
        if signal.SIGTERM not in self._flags:
            return
        if not self._is_noticed:
            self._is_noticed = self._is_stopping = True
            self._line.say(Notice())
        if not self._line.is_up:
            # Slurm ends the step and the batch script is gone: so is the job.
            self._is_ending = True

    def _report(self, now: float) -> None:
        if now - self._reported_at >= self._settings.report_s:
            self._reported_at = now
            self._line.say(Report(self._facts()))

    def _facts(self) -> NodeFacts:
        monotonic = time.monotonic()
        beats = self._beats.read()
        sample = self._hardware.newest
        return NodeFacts(
            self._place.node,
            ranks=tuple(rank_facts(beat, read_process(beat.pid), monotonic) for beat in beats),
            gpus=sample.gpus,
            links=sample.links,
            events=sample.events,
            is_driver_mute=sample.is_driver_mute,
            load_1m=os.getloadavg()[0],
            unread=sample.unread,
        )

    def _send_stacks(self, now: float) -> None:
        if self._dump is None:
            return
        for stack in self._dump.tick(now):
            self._line.say(stack)
        if self._dump.is_over and not self._hardware.is_asked:
            self._dump = None
            self._line.say(Report(self._facts()))
            self._line.say(Dumped())

    def _look_for_end(self) -> None:
        if self._exited is not None or self._command is None:
            return
        sampler = [pid for pid in [self._hardware.pid] if pid is not None]
        self._exited = self._command.ended(self._beats.directory, spare=sampler)
        if self._exited is not None:
            self._exited_at = self._clock()
            self._line.say(Report(self._facts()))
            self._line.say(fitted(self._exited))
