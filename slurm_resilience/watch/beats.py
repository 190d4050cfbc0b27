"""The heartbeat directory of one attempt on one node, the agent's side."""

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_resilience.errors import LaunchError, LockBusyError, UntrustedFileError
from slurm_resilience.locks import held
from slurm_resilience.watch.facts import RankFacts
from slurm_resilience.watch.heartbeat import Beat, Stop, beat_path, read_beat, write_stop
from slurm_resilience.watch.processes import Process

ROOM = Path("/dev/shm")  # noqa: S108 - memory that all processes of a node share, also in containers
MOST_RANKS = 1024
"""Heartbeat files beyond this are somebody's mistake."""
SETTLED_S = 1.0
LOCK = "agent.lock"
"""Held while the agent lives."""

log = logging.getLogger(__name__)


def directory_of(job: str, attempt: int, *, room: Path = ROOM) -> Path:
    """Where this user's ranks of one attempt keep their heartbeats on this node."""
    return room / f"slurm-resilience-{os.geteuid()}-{job}-{attempt}"


@contextmanager
def kept(directory: Path) -> Iterator["Beats"]:
    """
    *directory*, empty and this user's alone, for the length of the block.

    `LaunchError` where it cannot be made. What killed agents of this user left is swept.
    """
    for left in directory.parent.glob(f"slurm-resilience-{os.geteuid()}-*"):
        with contextlib.suppress(LockBusyError, OSError), held(left / LOCK):
            shutil.rmtree(left)
    _make_private(directory)
    with held(directory / LOCK):
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


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        raise LaunchError(
            f"{directory} is in use, or not this user's; remove it on this node"
        ) from None
    except OSError as error:
        raise LaunchError(f"{directory}: {error.strerror}; ranks cannot be watched") from error


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0
