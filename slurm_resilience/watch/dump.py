"""Python stacks of this node's ranks, asked for by a signal that their library answers."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.files import read_bounded
from slurm_resilience.watch.heartbeat import STACK_SIGNAL, Beat, stack_path
from slurm_resilience.watch.messages import Stack
from slurm_resilience.watch.processes import descendants, send

MOST_BYTES = 4 << 20
MOST_TEXT = 64 << 10
"""A stack of all threads of a rank is a few kibibytes; dumps add up in one file."""
STOPPED = "Tt"
"""A process in these states answers when it goes on: nobody waits for that."""
QUIET_S = 0.2
"""A file that has not grown for so long is whole."""


class Dump:
    """One request to all ranks of this node, and their answers as they come."""

    def __init__(
        self, directory: Path, beats: Sequence[Beat], *, now: float, wait_s: float
    ) -> None:
        """Only ranks with a heartbeat are asked: the signal kills who does not expect it."""
        self._until = now + wait_s
        alive = {each.pid: each.state for each in descendants(os.getpid())}
        asked = [beat for beat in beats if beat.pid in alive]
        self._paths = {beat.rank: stack_path(directory, beat.rank) for beat in asked}
        self._unable = {beat.rank for beat in asked if alive[beat.pid] in STOPPED}
        self._before = {rank: _size(path) for rank, path in self._paths.items()}
        self._sizes = dict.fromkeys(self._paths, (0, now))
        send((beat.pid for beat in asked), STACK_SIGNAL)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to wait for."""
        return not self._paths

    def tick(self, now: float) -> list[Stack]:
        """Answers that came since the last tick; empty ones when the time is over."""
        ready = [
            rank for rank in self._paths if now >= self._until or self._is_whole(rank, now)
        ]
        return [Stack(rank, self._text(rank)) for rank in ready]

    def _is_whole(self, rank: int, now: float) -> bool:
        size, since = self._sizes[rank]
        grown = _size(self._paths[rank])
        if rank in self._unable:
            return True
        if grown != size:
            self._sizes[rank] = (grown, now)
            return False
        return size > self._before[rank] and now - since >= QUIET_S

    def _text(self, rank: int) -> str:
        path = self._paths.pop(rank)
        text = b""
        with contextlib.suppress(UntrustedFileError, FileNotFoundError):
            text = read_bounded(path, most_bytes=MOST_BYTES, owners=frozenset({os.geteuid()}))
        return text[self._before[rank] :][:MOST_TEXT].decode("utf-8", "replace")


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
