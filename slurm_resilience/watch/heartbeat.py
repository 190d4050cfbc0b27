"""
The heartbeat file: how a rank tells the agent on its node that it moves, and is told to stop.

One small file a rank on /dev/shm, which the rank maps. It writes everything but the stop
word, which only the agent writes. No torch here: the agent and the ranks share this module.
"""

import mmap
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.errors import UntrustedFileError

DIRECTORY_VARIABLE = "SLURM_RESILIENCE_HEARTBEATS"
"""Names the directory of heartbeat files; set by the agent for its ranks."""

SAVED_VARIABLE = "SLURM_RESILIENCE_SAVED_STEP"
"""The newest step that an earlier attempt of this job knew to be saved; absent or empty: none."""

ATTEMPT_VARIABLE = "SLURM_RESILIENCE_ATTEMPT"
"""The directory of this attempt's records, seen by all nodes; set by the agent for its ranks."""

MOST_RANKS = 1024
"""On one node. More are somebody's mistake, and may take the node down."""

STACK_SIGNAL = signal.SIGUSR1
"""Makes a rank append the Python stacks of all its threads to its stack file, whatever it waits
for; it goes on afterwards."""

_MAGIC = b"SRHB0001"
_RECORD = struct.Struct("<qqqqqqdd")
_SEQUENCE = struct.Struct("<Q")
_STOP = struct.Struct("<Q")
_SEQUENCE_AT = 8
_RECORD_AT = 16
_STOP_AT = 120
SIZE = 128


class Phase(IntEnum):
    """What a rank is doing."""

    START = 0
    STEP = 1
    SAVE = 2
    LOAD = 3
    EVAL = 4
    DONE = 5


class Stop(IntEnum):
    """What the agent asks of a rank."""

    GO_ON = 0
    SAVE_AND_STOP = 1


def beat_path(directory: Path, rank: int) -> Path:
    """The heartbeat file of a rank."""
    return directory / f"rank-{rank}.beat"


def stack_path(directory: Path, rank: int) -> Path:
    """Where a rank writes its Python stacks upon `STACK_SIGNAL`; empty until then."""
    return directory / f"rank-{rank}.stack"


def error_path(directory: Path, rank: int) -> Path:
    """
    Where a rank leaves the exception that ended it, one JSON object.

    `{"type": "ValueError", "message": "…", "frames": [{"file", "line", "function"}, …],
    "at": <Unix seconds>}`, the innermost frame last. Not there while nothing was raised.
    """
    return directory / f"rank-{rank}.error.json"


class Beat(NamedTuple):
    """One rank's last sign of life. Steps are -1 where there is none yet."""

    rank: int
    local_rank: int
    pid: int
    step: int
    phase: Phase
    saved_step: int
    """Step of the newest checkpoint known to be whole; -1: none."""
    changed: float
    """CLOCK_MONOTONIC seconds at which step or phase last changed."""
    written: float
    """CLOCK_MONOTONIC seconds of the last write."""


class Heartbeat:
    """The rank's end: write beats, read the stop word."""

    def __init__(self, directory: Path, *, rank: int, local_rank: int) -> None:
        self.path = beat_path(directory, rank)
        self._fixed = (rank, local_rank, os.getpid())
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        try:
            os.ftruncate(descriptor, SIZE)
            self._map = mmap.mmap(descriptor, SIZE)
        finally:
            os.close(descriptor)
        self._sequence = 0
        self._last = (-2, -1)
        self._changed = 0.0

    def beat(self, step: int, phase: Phase, *, saved_step: int, now: float) -> None:
        """Say what this rank does at *now* (CLOCK_MONOTONIC seconds)."""
        if (step, phase) != self._last:
            self._last = (step, phase)
            self._changed = now
        # Odd while writing, so that a reader never takes half a record for a whole one.
        _SEQUENCE.pack_into(self._map, _SEQUENCE_AT, self._sequence + 1)
        _RECORD.pack_into(
            self._map, _RECORD_AT, *self._fixed, step, phase, saved_step, self._changed, now
        )
        self._sequence += 2
        _SEQUENCE.pack_into(self._map, _SEQUENCE_AT, self._sequence)
        if self._sequence == 2:  # noqa: PLR2004 - first whole record: now it may be found
            self._map[: len(_MAGIC)] = _MAGIC

    @property
    def stop(self) -> Stop:
        """What the agent asks for."""
        (word,) = _STOP.unpack_from(self._map, _STOP_AT)
        return Stop.SAVE_AND_STOP if word else Stop.GO_ON

    def close(self) -> None:
        """Unmap; the file stays for the agent."""
        self._map.close()


def read_beat(path: Path) -> Beat:
    """
    The last whole record of a heartbeat file.

    Raises `UntrustedFileError` where the file is a link, foreign, of the wrong size, torn, or
    not (yet) a heartbeat.
    """
    with _opened(path, os.O_RDONLY) as descriptor:
        for _ in range(100):
            # Read twice rather than mapped: a rank that starts anew truncates its file, and who
            # touches a map beyond a file's end dies of SIGBUS.
            whole = os.pread(descriptor, _STOP_AT, 0)
            if whole == os.pread(descriptor, _STOP_AT, 0) and len(whole) == _STOP_AT:
                (sequence,) = _SEQUENCE.unpack_from(whole, _SEQUENCE_AT)
                if sequence % 2 == 0:
                    break
        else:
            raise UntrustedFileError(f"{path}: torn heartbeat; its writer died while writing")
    if not whole.startswith(_MAGIC):
        raise UntrustedFileError(f"{path}: not a heartbeat file (yet)")
    record = _RECORD.unpack_from(whole, _RECORD_AT)
    rank, local_rank, pid, step, phase, saved_step, changed, written = record
    try:
        known = Phase(phase)
    except ValueError as error:
        raise UntrustedFileError(f"{path}: unknown phase {phase}") from error
    return Beat(rank, local_rank, pid, step, known, saved_step, changed, written)


def write_stop(path: Path, stop: Stop) -> None:
    """Tell the rank behind *path* to save and stop; `UntrustedFileError` as `read_beat`."""
    with _opened(path, os.O_WRONLY) as descriptor:
        os.pwrite(descriptor, _STOP.pack(stop), _STOP_AT)


@contextmanager
def _opened(path: Path, access: int) -> Iterator[int]:
    try:
        descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UntrustedFileError(f"{path}: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_size != SIZE:
            raise UntrustedFileError(f"{path}: not a heartbeat file of this user")
        yield descriptor
    finally:
        os.close(descriptor)
