"""A clock for limits: it stands still while this process does."""

import time
from collections.abc import Callable

MOST_GAP_S = 5.0


class SteadyClock:
    """
    Seconds in which this process could run.

    `scontrol suspend`, gang scheduling or a frozen virtual machine stop a job and its watcher
    together: the time in between says nothing about the ranks. Ask at least every few seconds;
    a longer gap counts as `MOST_GAP_S`.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last = monotonic()
        self._now = self._last

    def __call__(self) -> float:
        """The time now, in seconds."""
        last, self._last = self._last, self._monotonic()
        self._now += min(self._last - last, MOST_GAP_S)
        return self._now
