"""
Saving without stopping the training: the training thread plans and copies, a thread writes.

One save at a time. A save that fails is said and does not count; training goes on.
"""

import atexit
import errno
import logging
import os
import time
from concurrent import futures

import msgspec

from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.errors import (
    CheckpointError,
    CheckpointInUseError,
    CheckpointSaveError,
    ResilienceError,
)
from slurm_resilience.training.beside import beside
from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.choosing import Choice
from slurm_resilience.training.claiming import Hold
from slurm_resilience.training.environment import Environment
from slurm_resilience.training.peers import Failure, Peers
from slurm_resilience.training.planning import Planning
from slurm_resilience.training.sound import Loss, poison_of, way_back
from slurm_resilience.training.staging import Staging
from slurm_resilience.training.state import Captured, State, captured
from slurm_resilience.training.writing import Frozen, Writing

log = logging.getLogger(__name__)

LOST_S = 10.0
"""For a save to end once ranks are lost: another's part may have been the last that it needed."""
SHORT_S = 1.0
"""A wait of which nothing is said."""
NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


_closed: "list[Saver]" = []
"""Amid a save; kept here, so that no writer thread is the last to let go of tensors."""


class Saver:
    """Writes checkpoints into a claimed directory, one after the other."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        peers: Peers,
        hold: Hold,
        choice: Choice,
        environment: Environment | None,
    ) -> None:
        """*environment*: what is to be remembered with each checkpoint; on rank 0 only."""
        newest = choice.newest
        self.saved_step = newest.manifest.step if newest and newest.manifest else -1
        """Step of the newest checkpoint known to be whole; -1: none."""
        self.longest_s = newest.manifest.took_s if newest and newest.manifest else 0.0
        """What the slowest save took, the one restored among them; 0: none was measured."""
        self.problem: CheckpointError | None = None
        """Why the last save failed, where it did."""
        self._reason = ""
        self._directory = checkpoints.path
        self._peers = peers
        self._claim = hold.claim
        self._environment = environment
        self._unsound = set(choice.unsound)
        self._writing = Writing(checkpoints, peers, hold, self._unsound)
        self.following = self._writing.following
        self._planning = Planning(peers, hold.nodes)
        self._staging = Staging(peers)
        self._pending: tuple[int, futures.Future[Manifest]] | None = None
        _forget_ended()
        atexit.register(self._end, os.getpid())
        self._given_up: futures.Future[Manifest] | None = None
        """A save that was left to itself: it may still write."""

    @property
    def busy_with(self) -> int | None:
        """The step whose save is not done; None: nothing is being saved."""
        return self._pending[0] if self._pending and not self._pending[1].done() else None

    def begin(self, step: int, state: State, loss: Loss) -> None:
        """
        Freeze *state* and start writing it; waits for the save before, which needs its memory.

        Every rank has to come here. Raises `CheckpointError` where it cannot even begin.
        """
        self._wait_for_last(step)
        since = time.monotonic()

        def capture() -> Captured:
            taken = captured(state, rank=self._peers.rank)
            self._staging.memory.look()  # before the ranks meet to plan
            return taken

        poison = self._peers.tried(lambda: poison_of(loss))
        taken = self._planning.made(step, capture)
        block = self._staging.filled(self._planning.pieces)
        frozen = Frozen(
            step,
            since,
            block,
            self._planning.names,
            self._staging.views,
            self._planning.plan,
            msgspec.structs.replace(taken.values, environment=self._environment),
            taken.guarded,
            "the loss cannot be looked at" if isinstance(poison, Failure) else poison,
        )
        self._pending = (step, beside(lambda: self._writing.write(frozen)))
        log.info("step %d: training stood for %.3f s", step, time.monotonic() - since)

    def settle(self) -> None:
        """Take note of a save that has ended, if one has."""
        if self._pending and self._pending[1].done():
            self.wait()

    def wait(self, *, final: bool = False) -> None:
        """Take note of how the save in progress, perhaps the *final* one, ends, when it does."""
        if self._pending is None:
            return
        step, future = self._pending
        try:
            error = future.exception(timeout=LOST_S if self._peers.lost else None)
        except futures.TimeoutError:  # it waits for a rank that will never answer
            error = CheckpointError(f"lost other ranks: {self._peers.lost}")
            self._given_up = future
        self._pending = None
        if error is None:
            self.saved_step, self.problem, self._reason = step, None, ""
            self._tell(future.result())
        else:
            self.failed(step, error, final=final)

    def failed(self, step: int, error: BaseException, *, final: bool) -> None:
        """Take note that *step* is not saved, and say so; why, only where that is new."""
        self.problem = self._not_saved(step, error)
        news = (
            f"step {step} is not saved either" if str(error) == self._reason else self.problem
        )
        self._reason = str(error)
        unexpected = None if isinstance(error, ResilienceError) else error
        outlook = "" if final else "; training goes on"
        log.log(
            self._peers.log_level(logging.ERROR), "%s%s", news, outlook, exc_info=unexpected
        )

    def close(self) -> bool:
        """
        Take no more; whether nothing is being saved. What is goes on, and the directory is ours until
        it has ended.
        """
        writing = self._pending[1] if self._pending else self._given_up
        if self._pending is None:
            atexit.unregister(self._end)
        else:
            _closed.append(self)
        if writing:
            writing.add_done_callback(lambda _: self._let_go())
        else:
            self._let_go()
        return self._pending is None

    def _let_go(self) -> None:
        if self._has_followed() and self._claim:
            self._claim.release()

    def _end(self, pid: int) -> None:
        if os.getpid() != pid or self._pending is None:  # a forked child has no such thread
            return
        if self.busy_with is not None:
            log.log(
                self._peers.log_level(logging.WARNING),
                "the script ends while step %d is being saved: waiting for it; run.finish() does, "
                "and saves the last step",
                self.busy_with,
            )
        self.wait(final=True)
        self._has_followed()

    def _has_followed(self) -> bool:
        return self.following.ended(LOST_S if self._peers.lost else None)

    def _wait_for_last(self, step: int) -> None:
        since = time.monotonic()
        if self._pending:
            futures.wait([self._pending[1]], timeout=SHORT_S)
        if self.busy_with is None:
            self.wait()
            return
        level = self._peers.log_level(logging.WARNING)
        log.log(
            level, "the save of step %d is not done at step %d: waiting", self.busy_with, step
        )
        self.wait()
        log.log(level, "waited %.2f s for it", time.monotonic() - since)

    def _tell(self, manifest: Manifest) -> None:
        self.longest_s = max(self.longest_s, manifest.took_s)
        log.info("saved step %d in %.2f s", manifest.step, manifest.took_s)
        if manifest.poison:
            log.log(
                self._peers.log_level(logging.ERROR),
                "step %d is saved, but %s; %s", manifest.step, manifest.poison, way_back(self._directory, self._unsound),
            )  # fmt: skip

    def _not_saved(self, step: int, error: BaseException) -> CheckpointError:
        in_use = isinstance(error, CheckpointInUseError)
        kind = CheckpointInUseError if in_use else CheckpointSaveError
        cause = error.__cause__ if isinstance(error, ResilienceError) else error
        newest = "nothing" if self.saved_step < 0 else f"step {self.saved_step}"
        advice = ""
        if isinstance(cause, OSError) and cause.errno in NO_SPACE:
            advice = f"; free some space for {self._directory}"
        problem = kind(f"step {step} is not saved: {error}{advice}; saved last: {newest}")
        problem.__cause__ = cause
        return problem


def _forget_ended() -> None:
    """Free what was kept for saves that have ended by now; what they came to is said."""
    for saver in [saver for saver in _closed if saver.busy_with is None]:
        saver.wait(final=True)
        atexit.unregister(saver._end)  # noqa: SLF001 - of this module
        _closed.remove(saver)
