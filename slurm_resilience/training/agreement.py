"""
The same decision on all ranks at the same step, without stopping them for it.

At each step a rank says what it knows (told to stop; the clock says save; a save is not done) and
goes on; at the next step it reads what was said by all. So a notice takes effect one step after the
last rank said it. Once ranks are lost, each of those left decides for itself.
"""

import logging
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist

from slurm_resilience.training.peers import Peers

LAST_WORD = timedelta(seconds=2)

log = logging.getLogger(__name__)


class Word(NamedTuple):
    """What any rank said."""

    stop: bool
    save: bool
    busy: bool
    """The last save is not done."""
    lost: bool = False
    """What ranks exchange to save has broken, although all are there to say so."""


SILENCE = Word(stop=False, save=False, busy=False)


class Agreement:
    """All ranks' words of the last step."""

    def __init__(self, peers: Peers) -> None:
        """Every rank has to come here."""
        self._group = peers.new_group()
        self._peers = peers
        self.is_lost = False
        """Whether a rank has died or fell silent: there is nothing to agree any more."""
        self._level = peers.log_level(logging.WARNING)
        self._said: torch.Tensor | None = None
        self._work: dist.Work | None = None

    def say(self, word: Word) -> None:
        """Send *word*; all ranks have to, at the same step."""
        if self.is_lost:
            return
        self._said = torch.tensor(word, dtype=torch.int8, device="cpu")
        try:
            self._work = dist.all_reduce(
                self._said, op=dist.ReduceOp.MAX, group=self._group, async_op=True
            )
        except RuntimeError as error:
            self._lose(error)

    def hear(self) -> Word:
        """What was said at the last step; waits for the slowest rank to have said it."""
        if self._work is None or self._said is None:
            return SILENCE
        try:
            self._work.wait()
        except RuntimeError as error:
            self._lose(error)
            return SILENCE
        return Word(*map(bool, self._said.tolist()))

    def end(self) -> None:
        """Say no more; waits a little for the last word to reach all."""
        group, self._group = self._group, None
        try:
            if self._work is not None:
                self._work.wait(LAST_WORD)
        except RuntimeError:
            return
        self._work = self._said = None
        self._peers.leave(group)

    def _lose(self, error: RuntimeError) -> None:
        # Not raised: the training's own collectives fail too, and say more about where.
        self._peers.lose(error)
        self.is_lost, self._work = True, None
        log.log(self._level, "the ranks can no longer agree on a stop: %s", self._peers.lost)
