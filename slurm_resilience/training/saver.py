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
from pathlib import Path
from typing import NamedTuple

import msgspec

from slurm_resilience.checkpoint_files.listing import directory_name
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
from slurm_resilience.training.drafting import Draft, Drafting, Written
from slurm_resilience.training.environment import Environment
from slurm_resilience.training.following import Following
from slurm_resilience.training.peers import Failure, Peers
from slurm_resilience.training.planning import Plan, Planning
from slurm_resilience.training.sound import Loss, poison_in, poison_of, way_back
from slurm_resilience.training.staging import Staging
from slurm_resilience.training.state import Captured, State, Values, captured
from slurm_resilience.training.writer import (
    Standing,
    clear,
    complete,
    give_name,
    open_unfinished,
    read_back,
    write_part,
)

log = logging.getLogger(__name__)

LOST_S = 10.0
"""For a save to end once ranks are lost: another's part may have been the last that it needed."""
SHORT_S = 1.0
"""A wait of which nothing is said."""
NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


class Frozen(NamedTuple):
    """What one rank writes of one step."""

    step: int
    since: float
    """CLOCK_MONOTONIC seconds at which the save began."""
    block: memoryview | Failure
    """The tensors; or why there was no room for them."""
    names: list[str]
    """Of what the tensors are pieces of."""
    plan: Plan
    values: Values
    guarded: frozenset[str]
    poison: str
    """What is wrong with the loss; empty: nothing."""


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
        self._nodes, self._claim = hold
        self._environment = environment
        self._unsound = set(choice.unsound)
        self.following = Following(checkpoints, hold, self._unsound)
        self._planning = Planning(peers, hold.nodes)
        self._drafting = Drafting(hold.nodes)
        self._staging = Staging(peers)
        self._pending: tuple[int, futures.Future[Manifest]] | None = None
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

        taken = self._planning.made(step, capture)
        block = self._staging.filled(self._planning.pieces)
        frozen = Frozen(
            step,
            since,
            block,
            self._planning.names,
            self._planning.plan,
            msgspec.structs.replace(taken.values, environment=self._environment),
            taken.guarded,
            poison_of(loss),
        )
        self._pending = (step, beside(lambda: self._write(frozen)))
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
        if self._pending:
            atexit.register(self._end, os.getpid())
        if writing:
            writing.add_done_callback(lambda _: self._let_go())
        else:
            self._let_go()
        return self._pending is None

    def _let_go(self) -> None:
        if self._has_followed() and self._claim:
            self._claim.release()

    def _end(self, pid: int) -> None:
        if os.getpid() == pid:  # a forked child has no such thread
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

    def _write(self, frozen: Frozen) -> Manifest:
        peers, nodes = self._peers, self._nodes
        path = self._directory / directory_name(frozen.step)
        unfinished = nodes.told(peers, lambda: self._open(frozen.step))
        try:
            with Standing(unfinished) as standing:
                mine = peers.tried(lambda: self._write_part(standing, unfinished, frozen))
                draft = peers.dealt(mine, lambda parts: self._drafts(frozen, parts))
                # No part gets its name before all of them are on disk.
                nodes.led(peers, lambda: self._complete(unfinished, draft))
                nodes.led(peers, lambda: self._name(unfinished, draft))
                files = mine.files if isinstance(mine, Written) else {}
                manifest = draft.manifest if nodes.leads else None
                peers.each(lambda: read_back(standing.path, path, files, manifest))
        except Exception as error:
            if nodes.leads:
                self._unsound.add(path)
                clear(unfinished, path, error, self._confirm)
            raise
        if nodes.leads:
            self._unsound.discard(path)
            self.following.begin(draft.manifest)
        return draft.manifest

    def _write_part(self, standing: Standing, unfinished: Path, frozen: Frozen) -> Written:
        if isinstance(frozen.block, Failure):
            raise CheckpointError(f"no host memory to copy to: {frozen.block.text}")
        standing.hold()
        rank = self._peers.rank
        part = write_part(unfinished, rank, frozen.block, frozen.values)
        copies = zip(frozen.names, self._staging.views, strict=True)
        return part._replace(poison=frozen.poison or poison_in(copies, frozen.guarded))

    def _open(self, step: int) -> Path:
        self.following.ended()  # or there would be one more checkpoint than has to fit
        if self._claim and self._claim.renew():
            log.error(
                "%s was deleted; made again, without what was saved there", self._directory
            )
        token = self._claim.me.token if self._claim else str(os.getpid())
        return open_unfinished(self._directory, step, token)

    def _drafts(self, frozen: Frozen, written: list[Written]) -> list[Draft]:
        known = Manifest(
            format=1,
            step=frozen.step,
            world_size=self._peers.world_size,
            saved_at=time.time(),
            took_s=round(time.monotonic() - frozen.since, 3),
            job=self._claim.me.job if self._claim else "",
            files={},
            poison=next((part.poison for part in written if part.poison), ""),
        )
        return self._drafting.drafts(known, frozen.plan, written)

    def _complete(self, unfinished: Path, draft: Draft) -> None:
        self._confirm()
        complete(unfinished, draft)

    def _name(self, unfinished: Path, draft: Draft) -> None:
        self._confirm()  # once more: what has the name may be another's by now
        give_name(unfinished, draft.manifest)

    def _confirm(self) -> None:
        if self._claim:
            self._claim.confirm()
