"""When to save: what one rank knows of it; the ranks then agree. Steps and clock come in as arguments."""

import logging
import math
from collections.abc import Mapping
from typing import NamedTuple

from slurm_resilience.lead import END_VARIABLE, needed_s

log = logging.getLogger(__name__)

MOST_DIGITS = 12
FIRST_SAVE_S = 30.0
"""What a save is taken to need until one was measured."""


class Due(NamedTuple):
    """Every so many steps or seconds since the last save, whichever is first; None: never by it."""

    every_steps: int | None
    every_s: float | None


def time_limit(environment: Mapping[str, str]) -> float | None:
    """When the job's time limit is reached, in Unix seconds; None where nobody says."""
    text = environment.get(END_VARIABLE, "")
    return float(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


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
        every_steps = self._due.every_steps
        return every_steps is not None and step - self.saved_at_step >= every_steps

    def asks(self, now: float, save_s: float) -> bool:
        """
        Whether it is time, or the last time, at the end of a step; *save_s*: the longest save so
        far, 0: none was measured. Asks until a save has `begun`, as one may be skipped.

        For one rank to ask, and to tell the others.
        """
        self._step_s = max(self._step_s, now - self._stepped_at)
        self._stepped_at = now
        every_s = self._due.every_s
        is_time = every_s is not None and now - self._since >= every_s
        return is_time or self._is_last_call(now, save_s)

    def slept(self, now: float) -> None:
        """Until *now* something else was done than a step."""
        self._stepped_at = now

    def _is_last_call(self, now: float, save_s: float) -> bool:
        if self._ends_at is None:
            return False
        need_s = needed_s(save_s or FIRST_SAVE_S, self._step_s)
        # Again only where the first one came far too early, for a step that took long.
        is_late = self._ends_at - need_s <= now < self._ends_at
        if not is_late or need_s > self._left_at_last_call / 2:
            return False
        self._called_for_s = need_s
        return True
