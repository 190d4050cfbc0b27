"""
Whether a signal that a child got went to its parent too.

torchrun, and Slurm without cgroups, signal a rank's whole process group: its children get the notice
as well, and the rank needs them for one more step. A signal that went to a child alone is its
parent's way to end it, and is to be obeyed.

The C part of Python's signal handling writes the number of each signal to a file at once, whatever
the parent's main thread is in. The file is in memory; children look into it.
"""

import os
import signal
import time
import weakref
from contextlib import suppress
from pathlib import Path

NAME = "slurm-resilience-signals"
PARENT_S = 1.0
"""For the parent to be woken by a signal that was sent to both."""
LOOK_S = 0.01
MOST_BYTES = 1 << 20
"""One for each signal with a handler in Python."""


class Ear:
    """A child's view of the signals that its parent gets."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        heard = self._heard()  # what came before was not meant for this child
        self._met = {signum: heard.count(signum) for signum in set(heard)}

    def was_parents(self, signum: int) -> bool:
        """Whether the parent has got *signum*, which this child has just got, too."""
        wanted = self._met.get(signum, 0) + 1
        until = time.monotonic() + PARENT_S
        while self._heard().count(signum) < wanted:
            if time.monotonic() >= until:
                return False
            time.sleep(LOOK_S)
        self._met[signum] = wanted
        return True

    def _heard(self) -> bytes:
        with suppress(OSError):
            return os.pread(self._descriptor, MOST_BYTES, 0)
        return b""


class Overheard:
    """A parent's signals; to be made in its main thread."""

    def __init__(self) -> None:
        self.ear: Ear | None = None
        """In a forked child; None in the parent, and where the signals go elsewhere."""
        self._file = os.memfd_create(NAME, os.MFD_CLOEXEC)
        os.set_blocking(self._file, False)
        before = signal.set_wakeup_fd(self._file, warn_on_full_buffer=False)
        self._is_ours = before == -1
        if not self._is_ours:  # somebody's event loop: it needs them more than our children
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            os.close(self._file)
            return
        myself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forked(myself()))

    def forked(self) -> None:
        """In a new child."""
        if self._is_ours:
            signal.set_wakeup_fd(-1)  # or its own signals would look like its parent's
            self.ear = Ear(self._file)

    def close(self) -> None:
        """Write no more."""
        if self._is_ours:
            now = signal.set_wakeup_fd(-1)
            if now not in {-1, self._file}:
                signal.set_wakeup_fd(now, warn_on_full_buffer=False)
            self._is_ours = False
            os.close(self._file)


def ear_of(parent: int) -> Ear | None:
    """The ear for a child of process *parent* that was not forked from it; None: nothing to hear."""
    with suppress(OSError):
        for link in Path(f"/proc/{parent}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                if link.readlink().name.startswith(f"memfd:{NAME}"):
                    return Ear(os.open(link, os.O_RDONLY | os.O_CLOEXEC))
    return None


def _forked(overheard: Overheard | None) -> None:
    if overheard:
        overheard.forked()
