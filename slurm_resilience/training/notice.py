"""A notice by signal."""

import logging
import os
import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

from slurm_resilience.training.overheard import Overheard

log = logging.getLogger(__name__)

WITHOUT_AGENT = (signal.SIGTERM, signal.SIGUSR2)
WITH_AGENT = (signal.SIGUSR2,)
"""The agent tells of a preemption's SIGTERM by the stop word. What else sends SIGTERM is torchrun
that ends the ranks beside a dead one: then nothing is left to save, and lingering costs time."""


class Notice:
    """
    Truthy once one of *signals* has come. The handler does nothing else; it then calls the one
    that was there before, where there was one.

    A forked child (a data loader's worker) inherits the handler, but not its meaning. It ignores a
    notice that went to its parent too, who still needs it; what was sent to it alone it takes as
    it would have without us.
    """

    def __init__(self, signals: Sequence[signal.Signals]) -> None:
        self._pid = os.getpid()
        self._signals = frozenset(signals)
        self._come = False
        self._before: dict[int, Any] = {}
        self._overheard: Overheard | None = None
        if threading.current_thread() is not threading.main_thread():
            log.warning("not in the main thread: signals are not taken as a notice")
            return
        # Where the agent has made this rank ignore SIGTERM, its children still ask whether it came.
        shielded = signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
        for signum in {*signals, *([signal.SIGTERM] if shielded else [])}:
            self._before[signum] = signal.signal(signum, self._take)
        self._overheard = Overheard()

    def __bool__(self) -> bool:
        return self._come

    def give_back(self) -> None:
        """Put the handlers back that were there before."""
        for signum, before in self._before.items():
            if signal.getsignal(signum) == self._take:
                signal.signal(signum, before or signal.SIG_DFL)
        self._before = {}
        if self._overheard:
            self._overheard.close()
            self._overheard = None

    def _take(self, signum: int, frame: FrameType | None) -> None:
        before = self._before.get(signum)
        if os.getpid() == self._pid:
            self._come |= signum in self._signals
        elif not callable(before):
            ear = self._overheard.ear if self._overheard else None
            if ear is None or not ear.was_parents(signum):
                signal.signal(signum, before or signal.SIG_DFL)
                os.kill(os.getpid(), signum)
            return
        if callable(before):
            before(signum, frame)
