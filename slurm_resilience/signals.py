"""Signals only set flags; a loop looks at them at its next tick."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Caught:
    """Which signals came, and a descriptor that becomes readable when one does."""

    def __init__(self, wakeup: int) -> None:
        self.wakeup = wakeup
        self._seen: set[int] = set()

    def __contains__(self, signum: int) -> bool:
        return signum in self._seen

    def add(self, signum: int, _frame: FrameType | None) -> None:
        """The handler."""
        self._seen.add(signum)

    def drain(self) -> None:
        """Make the descriptor unreadable again."""
        try:
            while os.read(self.wakeup, 4096):
                pass
        except BlockingIOError:
            pass


@contextmanager
def caught(*signums: int) -> Iterator[Caught]:
    """
    Turn *signums* into flags for the length of the block, then give them back.

    What is executed meanwhile starts with the default dispositions.
    """
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    flags = Caught(reading)
    before = {signum: signal.signal(signum, flags.add) for signum in signums}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield flags
    finally:
        signal.set_wakeup_fd(wakeup)
        for signum, handler in before.items():
            signal.signal(signum, handler)
        os.close(reading)
        os.close(writing)
