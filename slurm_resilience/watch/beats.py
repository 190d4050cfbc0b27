"""The heartbeat directory of one attempt on one node, the agent's side."""

import contextlib
import logging
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_resilience.errors import LaunchError, LockBusyError, UntrustedFileError
from slurm_resilience.locks import held
from slurm_resilience.watch.facts import RankFacts
from slurm_resilience.watch.heartbeat import (
    MOST_RANKS,
    Beat,
    Stop,
    beat_path,
    read_beat,
    write_stop,
)
from slurm_resilience.watch.processes import Process

ROOM = Path("/dev/shm")  # noqa: S108 - memory that all processes of a node share, also in containers
SETTLED_S = 1.0
LOCK = "agent.lock"
"""Held while the agent lives."""

log = logging.getLogger(__name__)


@contextmanager
def kept(room: Path = ROOM) -> Iterator["Beats"]:
    """
    A new directory in *room* that is this user's alone, for the length of the block.

    Nobody can guess its name, so nobody can take it first. `LaunchError` where it cannot be made.
    What killed agents of this user left is swept.
    """
    _sweep(room)
    try:
        # Under this name no other agent sweeps it before it is locked.
        fresh = Path(tempfile.mkdtemp(prefix=f".{_prefix()}", dir=room))
    except OSError as error:
        raise LaunchError(f"{room}: {error.strerror}; ranks cannot be watched") from error
    with held(fresh / LOCK):
        directory = fresh.rename(room / f"{_prefix()}{secrets.token_hex(8)}")
        try:
            yield Beats(directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


class Beats:
    """Reads what ranks write; tells them to stop. A bad file is named once and left out."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._told: set[str] = set()

    def read(self) -> list[Beat]:
        """The last beat of each rank, by rank."""
        found: dict[int, Beat] = {}
        for path in self._files():
            with self._told_once(path):
                beat = read_beat(path)
                if path == beat_path(self.directory, beat.rank):
                    found[beat.rank] = beat
        return [found[rank] for rank in sorted(found)]

    def stop(self) -> None:
        """Tell every rank that there is to save and stop."""
        for path in self._files():
            with self._told_once(path):
                write_stop(path, Stop.SAVE_AND_STOP)

    def _files(self) -> list[Path]:
        return sorted(self.directory.glob("rank-*.beat"))[:MOST_RANKS]

    @contextmanager
    def _told_once(self, path: Path) -> Iterator[None]:
        try:
            yield
        except UntrustedFileError as error:
            # A rank's file is empty for a moment at its start.
            if path.name not in self._told and _age_s(path) > SETTLED_S:
                self._told.add(path.name)
                log.warning("heartbeat left out: %s", error)


def rank_facts(beat: Beat, process: Process | None, now: float) -> RankFacts:
    """One rank as the agent reports it; *now* is CLOCK_MONOTONIC, as in the beat."""
    return RankFacts(
        rank=beat.rank,
        local_rank=beat.local_rank,
        pid=beat.pid,
        step=beat.step,
        phase=beat.phase.name.lower(),
        saved_step=beat.saved_step,
        age_s=max(0.0, now - beat.changed),
        state=process.state if process else None,
        cpu_s=process.cpu_s if process else None,
    )


def _prefix() -> str:
    return f"slurm-resilience-{os.geteuid()}-"


def _sweep(room: Path) -> None:
    for left in room.glob(f"{_prefix()}*"):
        with contextlib.suppress(LockBusyError, OSError):
            # In a directory of somebody else's even the lock may be a link to anywhere.
            status = left.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                with held(left / LOCK):
                    shutil.rmtree(left)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0
