"""What this rank knows of when to save; the ranks then agree. Time comes in as an argument."""

import logging
import math

from slurm_resilience.lead import needed_s
from slurm_resilience.training.due import Due, is_late

log = logging.getLogger(__name__)

FIRST_SAVE_S = 30.0
"""What a save is taken to need until one was measured."""


class Schedule:
    """Steps and seconds since the last save, and how long is left."""

    def __init__(self, due: Due, *, now: float, ends_at: float | None) -> None:
        """*ends_at*: the time limit on the clock of *now*; None: not known."""
        self.saved_at_step = -1
        """The step whose save was begun last, or restored; -1: none."""
        self._due = due
        self._since = self._stepped_at = now
        self._step_s = 0.0
        self._ends_at = ends_at
        self._left_at_last_call = math.inf
        self._called_for_s = 0.0

    def begun(self, step: int, now: float) -> None:
        """A save of *step* has begun."""
        self.saved_at_step, self._since, self._step_s = step, now, 0.0
        if self._called_for_s and self._ends_at is not None:
            self._left_at_last_call = self._ends_at - now
            log.warning(
                "the time limit is %.0f s away, a save may need %.0f s: saving now",
                self._left_at_last_call, self._called_for_s,
            )  # fmt: skip
            self._called_for_s = 0.0

    def is_due(self, step: int) -> bool:
        """Whether enough steps were done: the same on all ranks."""
        return self._due.by_steps(step, self.saved_at_step)

    def asks(self, now: float, save_s: float) -> bool:
        """
        Whether it is time, or the last time, at the end of a step; *save_s*: the longest save so
        far, 0: none was measured. Asks until a save has `begun`, as one may be skipped.

        For one rank to ask, and to tell the others.
        """
        self._step_s = max(self._step_s, now - self._stepped_at)
        self._stepped_at = now
        return self._due.by_clock(now, self._since) or self._is_last_call(now, save_s)

    def slept(self, now: float) -> None:
        """Until *now* something else was done than a step."""
        self._stepped_at = now

    def _is_last_call(self, now: float, save_s: float) -> bool:
        if self._ends_at is None:
            return False
        need_s = needed_s(save_s or FIRST_SAVE_S, self._step_s)
        # Again only where the first one came far too early, for a step that took long.
        if not is_late(now, self._ends_at, need_s) or need_s > self._left_at_last_call / 2:
            return False
        self._called_for_s = need_s
        return True
