"""At the end of a step: stop, save, or neither; the same on all ranks."""

import logging
import time

from slurm_resilience.errors import UsageError
from slurm_resilience.training.agreement import Agreement, Word
from slurm_resilience.training.due import Schedule
from slurm_resilience.training.peers import Peers
from slurm_resilience.training.saver import Saver

log = logging.getLogger(__name__)


class Deciding:
    """What this rank knows, and what all have said, step by step."""

    def __init__(self, peers: Peers, schedule: Schedule, *, skips_if_busy: bool) -> None:
        """Every rank has to come here."""
        self._peers = peers
        self._schedule = schedule
        self._skips_if_busy = skips_if_busy
        self._is_skipping = False
        self._agreement = None if peers.alone else Agreement(peers)

    def end(self) -> None:
        """Decide no more."""
        if self._agreement:
            self._agreement.end()
            self._agreement = None

    def at(self, step: int, saver: Saver, *, stop: bool) -> Word:
        """Whether all ranks stop, and whether they save, at this step; *stop*: this one is told to."""
        asks = self._peers.rank == 0 and self._schedule.asks(time.monotonic(), saver.longest_s)
        is_due = self._schedule.is_due(step)
        is_busy = saver.busy_with is not None
        if self._agreement is None or self._agreement.is_lost:
            return self._unless_busy(Word(stop, asks or is_due, is_busy), step)
        heard = self._agreement.hear()
        if heard.lost and not heard.busy:
            self._meet_again()
        agreed = self._unless_busy(heard._replace(save=heard.save or is_due), step)
        if not agreed.stop:
            # Busy also with what is about to begin.
            self._agreement.say(
                Word(
                    stop,
                    asks and not agreed.save,
                    is_busy or agreed.save,
                    bool(self._peers.lost),
                )
            )
        return agreed

    def _meet_again(self) -> None:
        why = self._peers.lost
        try:
            self._peers.meet_again()
        except UsageError as error:
            self._peers.lose(RuntimeError(str(error)))
        else:
            log.log(
                self._peers.log_level(logging.WARNING),
                "all ranks are back (%s): saving goes on", why or "another had given one up",
            )  # fmt: skip

    def _unless_busy(self, word: Word, step: int) -> Word:
        """*word* without a save that is left for later, because the last one is not done."""
        skips = word.busy and word.save and self._skips_if_busy
        if skips and not self._is_skipping and self._peers.rank == 0:
            log.warning(
                "step %d is due, but the save of step %d is not done: skipped until it is",
                step, self._schedule.saved_at_step,
            )  # fmt: skip
        self._is_skipping = skips
        return word._replace(save=False) if skips else word
