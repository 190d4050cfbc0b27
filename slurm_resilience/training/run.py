"""What a training script holds: restore, step, finish."""

import logging
import os
import time
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import Any, SupportsIndex

from slurm_resilience.checkpoint_files.listing import Found
from slurm_resilience.errors import CheckpointError, ResilienceError, UsageError
from slurm_resilience.training.bringing import folder, opened
from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.choosing import Prefer, Wanted, choose
from slurm_resilience.training.concerns import Concerns
from slurm_resilience.training.copier import Copier, copy_last
from slurm_resilience.training.deciding import Deciding
from slurm_resilience.training.due import Schedule, time_limit
from slurm_resilience.training.earlier import saved_before
from slurm_resilience.training.notice import WITH_AGENT, WITHOUT_AGENT, Notice
from slurm_resilience.training.peers import Peers
from slurm_resilience.training.pulse import pulse
from slurm_resilience.training.restoring import fill
from slurm_resilience.training.saver import Saver
from slurm_resilience.training.sound import Loss
from slurm_resilience.training.state import has_names
from slurm_resilience.training.steps import known, whole
from slurm_resilience.watch.heartbeat import Phase

log = logging.getLogger(__name__)


class Run:
    """
    One attempt of a training: where it starts, when it saves, when it is told to stop.

    *state* names what a checkpoint holds: modules, optimizers, anything with `state_dict` and
    `load_state_dict`, tensors, numbers. The random number generators of every rank come along.
    A number is read from `run.state[name]` at each save, and stands there again after `restore`.

    With several ranks, make it on all of them after `init_process_group`. The ranks then talk
    over gloo groups of their own; a rank that says nothing for *timeout_minutes* is given up.
    """

    def __init__(
        self,
        *,
        checkpoints: Checkpoints,
        state: MutableMapping[str, Any],
        timeout_minutes: float = 30.0,
    ) -> None:
        """Raises `UsageError` where the state has no names or the ranks are not connected."""
        if not has_names(state):
            raise UsageError('Run: state is a dict with names, {"model": model, …}')
        self.state = state
        self.stopped = False
        """Whether `step` has returned True."""
        self._checkpoints = checkpoints
        self._directory = checkpoints.path
        now, limit = time.monotonic(), time_limit(os.environ)
        ends_at = limit and limit - time.time() + now
        self._schedule = Schedule(checkpoints.due, now=now, ends_at=ends_at)
        self._loss: Loss = None
        self._is_closed = self._is_said_to_be_over = False
        self._pid = os.getpid()
        self._peers = Peers(timeout_s=timeout_minutes * 60)
        skips = checkpoints.if_busy == "skip"
        self._deciding = Deciding(self._peers, self._schedule, skips_if_busy=skips)
        rank = self._peers.rank
        self._saved_before = self._peers.tried(lambda: saved_before(os.environ, rank=rank))
        self._pulse = pulse(self._peers.rank)
        self._notice = Notice(WITH_AGENT if self._pulse.is_seen else WITHOUT_AGENT)
        self._saver: Saver | None = None
        self._copier: Copier | None = None
        self._last = -1
        self._beat(Phase.START)

    def restore(
        self, *, anew: bool = False, prefer: Prefer = "newest", verified: Found | None = None
    ) -> int:
        """
        Fill the state from the newest checkpoint that all ranks find sound; the first step to do.

        *prefer* sound: go back behind those that were saved with a NaN or an infinity in the loss,
        the parameters or the optimizer; they are put aside. *verified*: what all ranks have just
        found sound, and need not read for that again.

        Raises `CheckpointPlaceError` where the directory cannot be used, or where an earlier
        attempt had saved and nothing of it is there; with *anew* the training then begins with
        step 0. `CheckpointInUseError` where another job writes there, `CheckpointSaveError` where
        the disk is full or fails, `CheckpointLoadError` where no checkpoint is sound or the
        newest sound one does not fit the state, `UsageError` where the state cannot be saved.
        """
        if self._saver or self._is_closed:
            raise UsageError("Run: restore() was called before; make a new Run to begin again")
        self._beat(Phase.LOAD)
        peers = self._peers
        before = max(peers.shared(self._saved_before))
        with ExitStack() as on_error:
            hold = opened(self._checkpoints, peers, -1 if anew else before)
            on_error.callback(hold.release)
            wanted = Wanted(prefer, anew, verified, bool(self._checkpoints.copies))
            choice = choose(self._directory, peers, hold.nodes, wanted)
            here = fill(self.state, choice.newest, peers)
            saver = Saver(self._checkpoints, peers, hold, choice, here)
            on_error.callback(self._end_copies)
            part = folder(hold.nodes)
            hold.nodes.led(peers, lambda: self._look_around(saver, part))
            on_error.pop_all()
        self._saver, self._last = saver, saver.saved_step
        if peers.rank == 0 and self._last < before:
            log.warning(
                "step %d had been saved, and is gone, damaged or poisoned: going on from step %d",
                before, self._last + 1,
            )  # fmt: skip
        self._schedule.begun(self._last, time.monotonic())
        self._beat(Phase.START)
        return self._last + 1

    def step(self, step: SupportsIndex, *, loss: Loss = None) -> bool:
        """
        Call after each step, on all ranks; True: everything is saved, leave the loop now.

        Says that this rank moves, and saves when due. Steps count over the whole training. The
        *loss* is looked at where it is saved: a checkpoint with a NaN or an infinity is marked.
        """
        if os.getpid() != self._pid:
            return False
        if self._saver is None:
            raise UsageError("Run: call restore() before the first step(), none after finish()")
        step = whole(step)
        if step <= self._last:
            raise UsageError(
                f"Run: step({step}) after step {self._last}: count the steps over the whole training"
            )
        if self.stopped:
            if not self._is_said_to_be_over and self._peers.rank == 0:
                log.warning(
                    "told to stop: nothing is saved after step %d; leave the loop where run.step "
                    "returns True",
                    self._last,
                )
            self._is_said_to_be_over = True
            return True
        self._loss = known(loss)
        self._last = step
        self._saver.settle()
        word = self._deciding.at(step, self._saver, stop=self._is_told)
        if word.save or word.stop:
            self._save(step, wait=word.stop)
        self.stopped = word.stop
        self._beat(Phase.STEP)
        return word.stop

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Say what the training does in the block: `with run.phase(Phase.EVAL): …`."""
        self._beat(phase)
        try:
            yield
        finally:
            self._beat(Phase.STEP)

    def finish(self, *, save: bool = True) -> None:
        """
        The training has ended: save the last step, unless *save* is false or it is saved; wait
        until everything is on disk and, unless told to stop, the newest checkpoint is copied to
        `copies=`. A copy that fails is only said.

        Raises `CheckpointSaveError` where the last save failed, or `CheckpointInUseError` where
        that was because another has taken the directory over.
        """
        if os.getpid() != self._pid:
            return
        problem = None
        if self._saver:
            self._beat(Phase.SAVE)
            self._saver.wait(final=True)
            if save and self._is_behind(self._saver):
                self._save(self._last, wait=True)
            problem = self._saver.problem
            if self._checkpoints.copies and not self.stopped:
                copy_last(self._copier, self._saver, self._peers, lambda: self._is_told)
        if not self.stopped:  # who stopped on request is not done, and wants to come back
            self._beat(Phase.DONE)
        self.close()
        if problem:
            raise problem

    def close(self) -> None:
        """
        Give signals and files back, and save no more. What is being written is still written, if
        the process group stays until then: to destroy it, call `finish` before.
        """
        if os.getpid() != self._pid:
            return
        self._end_copies()
        self._deciding.end()
        if self._saver is None or self._saver.close():
            self._peers.end()
        self._saver, self._is_closed = None, True
        self._notice.give_back()
        self._pulse.close()

    def __enter__(self) -> "Run":  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.close()

    def _look_around(self, saver: Saver, part: str) -> None:
        concerns = Concerns(self._checkpoints, saver.saved_step + 1)
        self._copier = Copier(self._checkpoints, part=part)
        saver.following.on_saved += [concerns.saved, self._copier.saved]

    def _end_copies(self) -> None:
        if self._copier:
            self._copier.close()
            self._copier = None

    def _is_behind(self, saver: Saver) -> bool:
        """Whether some rank knows the last step not to be saved, also where that was tried."""
        try:
            return self._peers.most(self._last - saver.saved_step) > 0
        except CheckpointError:
            return self._last > self._schedule.saved_at_step  # to say that it is not

    @property
    def _is_told(self) -> bool:
        """Whether this rank has been told to stop."""
        return bool(self._notice) or self._pulse.told_to_stop

    def _save(self, step: int, *, wait: bool) -> None:
        if self._saver is None:
            return
        self._beat(Phase.SAVE)
        self._schedule.begun(step, time.monotonic())
        try:
            self._saver.begin(step, self.state, self._loss)
        except ResilienceError as error:
            self._saver.failed(step, error, final=wait)
        if wait:
            self._saver.wait(final=True)
        self._schedule.slept(time.monotonic())

    def _beat(self, phase: Phase) -> None:
        if os.getpid() == self._pid:
            saved_step = self._saver.saved_step if self._saver else -1
            self._pulse.beat(self._last, phase, saved_step=saved_step)
