"""
What a rank shows to the agent on its node: heartbeats, stacks when asked, the error that ended it.

Without an agent (no SLURM_RESILIENCE_HEARTBEATS) all of this does nothing.
"""

import faulthandler
import json
import logging
import os
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType

from slurm_resilience.files import replace
from slurm_resilience.watch.heartbeat import (
    DIRECTORY_VARIABLE,
    STACK_SIGNAL,
    Heartbeat,
    Phase,
    Stop,
    error_path,
    stack_path,
)

log = logging.getLogger(__name__)

MOST_FRAMES = 30
MOST_MESSAGE = 4000


def pulse(rank: int) -> "Pulse":
    """Of this process, as the agent and torchrun have set its environment."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    local_rank = os.environ.get("LOCAL_RANK", "0")
    return Pulse(
        Path(directory) if directory else None,
        rank=rank,
        local_rank=int(local_rank) if local_rank.isdecimal() else 0,
    )


class Pulse:
    """The rank's side of its heartbeat directory."""

    def __init__(self, directory: Path | None, *, rank: int, local_rank: int) -> None:
        self._heartbeat: Heartbeat | None = None
        self._pid = os.getpid()
        if directory is None:
            return
        self._error = error_path(directory, rank)
        try:
            self._error.unlink(missing_ok=True)
            self._stacks = stack_path(directory, rank).open("wb")
            self._heartbeat = Heartbeat(directory, rank=rank, local_rank=local_rank)
        except OSError as error:
            log.warning("no heartbeat: %s: %s", error.filename, error.strerror)
            return
        self._before = sys.excepthook
        sys.excepthook = self._leave_error
        faulthandler.register(STACK_SIGNAL, file=self._stacks, all_threads=True, chain=False)

    def beat(self, step: int, phase: Phase, *, saved_step: int) -> None:
        """Say what this rank does."""
        if self._heartbeat:
            self._heartbeat.beat(step, phase, saved_step=saved_step, now=time.monotonic())

    @property
    def is_seen(self) -> bool:
        """Whether there is an agent to see it."""
        return self._heartbeat is not None

    @property
    def told_to_stop(self) -> bool:
        """Whether the agent asks to save and stop."""
        return self._heartbeat is not None and self._heartbeat.stop is Stop.SAVE_AND_STOP

    def close(self) -> None:
        """Show nothing more; the files stay."""
        if self._heartbeat is None:
            return
        faulthandler.unregister(STACK_SIGNAL)
        self._stacks.close()
        if sys.excepthook == self._leave_error:
            sys.excepthook = self._before
        self._heartbeat.close()
        self._heartbeat = None

    def _leave_error(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if os.getpid() == self._pid:
            frames = traceback.extract_tb(trace)[-MOST_FRAMES:]
            left = {
                "type": kind.__qualname__,
                "message": str(error)[:MOST_MESSAGE],
                "frames": [
                    {"file": frame.filename, "line": frame.lineno, "function": frame.name}
                    for frame in frames
                ],
                "at": time.time(),
            }
            try:
                replace(self._error, json.dumps(left).encode())
            except OSError as problem:
                log.warning("%s: %s", self._error, problem.strerror)
        self._before(kind, error, trace)
