"""
The run directory, written by a thread of its own: a file system that hangs, is full or goes away
costs the records, never the job.
"""

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_resilience import run_directory
from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.files import replace
from slurm_resilience.incident import Heartbeats, Incident

RECORD_S = 10.0
"""For an incident to reach the disk; then the job goes on without."""
Work = Callable[[], None]

log = logging.getLogger(__name__)


class Records:
    """What one attempt leaves in the run directory."""

    def __init__(self, directory: Path, attempt: int) -> None:
        self.directory = directory
        self.attempt_directory = run_directory.attempt_directory(directory, attempt)
        self._told = False
        self._work: queue.SimpleQueue[tuple[Work, threading.Event]] = queue.SimpleQueue()
        self._summary_done = threading.Event()
        self._summary_done.set()
        threading.Thread(target=self._write_on, daemon=True).start()

    def heartbeats(self, summary: Heartbeats) -> None:
        """Replace the summary; skipped while an older one is still being written."""
        if self._summary_done.is_set():
            self._summary_done = self._put(
                lambda: run_directory.write_heartbeats(self.directory, summary)
            )

    def stack(self, rank: int, text: str) -> None:
        """Keep a rank's stack."""
        path = self.attempt_directory / "stacks" / f"rank-{rank}.txt"

        def write() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, text.encode())

        self._put(write)

    def incident(self, incident: Incident, *, wait_s: float) -> None:
        """Leave the incident; returns when it is on disk, or after *wait_s* seconds."""
        done = self._put(lambda: run_directory.write_incident(self.directory, incident))
        if not done.wait(wait_s):
            self._tell(f"{self.directory} does not answer")

    def incidents_before(self, attempt: int, *, wait_s: float) -> list[Incident]:
        """What earlier attempts left, oldest first, as far as it can be read in time."""
        found: list[Incident] = []
        self._put(lambda: found.extend(self._read(attempt))).wait(wait_s)
        return list(found)

    def saved_before(self, attempt: int, *, job: str, wait_s: float) -> int | None:
        """
        The newest step that earlier attempts of *job* knew to be saved, as far as it can be read
        in time; None where there is none.
        """
        found = [-1]
        self._put(lambda: found.extend(self._saved(attempt, job))).wait(wait_s)
        newest = max(found)
        return newest if newest >= 0 else None

    def _saved(self, attempt: int, job: str) -> Iterator[int]:
        for incident in self._read(attempt):
            if incident.job == job:
                yield incident.saved_step if incident.saved_step is not None else -1
        for number in range(attempt):
            with contextlib.suppress(UntrustedFileError):
                owner = os.geteuid()
                summary = run_directory.read_heartbeats(self.directory, number, owner=owner)
                if summary is not None and summary.job == job:
                    yield from (rank.saved_step for rank in summary.ranks)

    def _read(self, attempt: int) -> Iterator[Incident]:
        for number in range(attempt):
            with contextlib.suppress(UntrustedFileError):
                owner = os.geteuid()
                incident = run_directory.read_incident(self.directory, number, owner=owner)
                if incident is not None:
                    yield incident

    def _put(self, work: Work) -> threading.Event:
        done = threading.Event()
        self._work.put((work, done))
        return done

    def _write_on(self) -> None:
        while True:
            work, done = self._work.get()
            try:
                work()
            except OSError as error:
                self._tell(f"{error.filename or self.directory}: {error.strerror}")
            done.set()

    def _tell(self, why: str) -> None:
        if not self._told:
            self._told = True
            log.warning("%s; the job goes on, its records are not kept", why)
