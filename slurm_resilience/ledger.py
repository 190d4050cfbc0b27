"""
The ledger: what Slurm does not remember, in one SQLite file with one writer, the controller.

    attempts     which nodes an attempt ran on; Slurm forgets when it requeues
    incidents    why attempts ended
    decisions    what was done about it, and when
    exclusions   which of a job's excluded nodes we added, and when

Nothing here is needed to be right: without it the controller goes on from what Slurm says.
"""

import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from slurm_resilience.errors import LedgerError
from slurm_resilience.incident import Incident
from slurm_resilience.slurm.values import Job

log = logging.getLogger(__name__)

VERSION = 1
KEEP_S = 180 * 24 * 3600.0

_SCHEMA = """
CREATE TABLE attempts (
    job TEXT, attempt INTEGER, user_id INTEGER, nodes TEXT, started_at REAL,
    PRIMARY KEY (job, attempt)
);
CREATE TABLE incidents (
    job TEXT, attempt INTEGER, seen_at REAL, incident TEXT,
    PRIMARY KEY (job, attempt)
);
CREATE TABLE decisions (
    job TEXT, attempt INTEGER, at REAL, step TEXT, because TEXT
);
CREATE INDEX decisions_of_a_job ON decisions (job, at);
CREATE TABLE exclusions (
    job TEXT, node TEXT, at REAL,
    PRIMARY KEY (job, node)
);
"""


class Ledger:
    """The open ledger. Times are Unix seconds; every call may raise `LedgerError`."""

    def __init__(self, path: Path | None) -> None:
        """
        Open the ledger at *path*; None: one that lives as long as this process.

        One that is damaged, or of a newer version, is moved aside and a new one begun.
        """
        self._rows = _connected(path)

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def saw_attempts(self, running: Iterable[Job]) -> None:
        """Remember where each attempt runs."""
        rows = [
            (job.id, job.restarts, job.user_id, json.dumps(job.nodes), job.started_at)
            for job in running
        ]
        with self._writing() as rows_of:
            rows_of.executemany("INSERT OR IGNORE INTO attempts VALUES (?, ?, ?, ?, ?)", rows)

    def nodes_of(self, job: str, attempt: int) -> tuple[str, ...]:
        """The nodes that an attempt ran on; empty where we did not see it."""
        found = self._read(
            "SELECT nodes FROM attempts WHERE job = ? AND attempt = ?", job, attempt
        )
        return tuple(json.loads(found[0][0])) if found else ()

    def saw_incident(self, incident: Incident, *, at: float) -> None:
        """Remember why an attempt ended, as it was told first."""
        row = (incident.job, incident.attempt, at, msgspec.json.encode(incident).decode())
        with self._writing() as rows:
            rows.execute("INSERT OR IGNORE INTO incidents VALUES (?, ?, ?, ?)", row)

    def decided(self, job: str, attempt: int, *, step: str, because: str, at: float) -> None:
        """Remember a step that was taken."""
        row = (job, attempt, at, step, because)
        with self._writing() as rows:
            rows.execute("INSERT INTO decisions VALUES (?, ?, ?, ?, ?)", row)

    def count_decisions(self, job: str, *, step: str, since: float) -> int:
        """How often *step* was taken for a job since then."""
        found = self._read(
            "SELECT count(*) FROM decisions WHERE job = ? AND at >= ? AND step = ?",
            job,
            since,
            step,
        )
        return int(found[0][0])

    def exclusions(self, job: str) -> dict[str, float]:
        """The nodes that we excluded from a job, and when."""
        return dict(self._read("SELECT node, at FROM exclusions WHERE job = ?", job))

    def set_exclusions(self, job: str, nodes: Iterable[str], *, at: float) -> None:
        """Replace the nodes that we excluded; those known already keep their time."""
        known = self.exclusions(job)
        with self._writing() as rows:
            rows.execute("DELETE FROM exclusions WHERE job = ?", (job,))
            rows.executemany(
                "INSERT OR IGNORE INTO exclusions VALUES (?, ?, ?)",
                [(job, node, known.get(node, at)) for node in nodes],
            )

    def forget(self, *, before: float) -> None:
        """Drop what is older than *before*."""
        with self._writing() as rows:
            rows.execute("DELETE FROM attempts WHERE started_at < ?", (before,))
            rows.execute("DELETE FROM incidents WHERE seen_at < ?", (before,))
            rows.execute("DELETE FROM decisions WHERE at < ?", (before,))
            rows.execute("DELETE FROM exclusions WHERE at < ?", (before,))

    def _read(self, question: str, *values: object) -> list[Any]:
        with _translated():
            return self._rows.execute(question, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with _translated(), self._rows:
            yield self._rows


def starts_of(path: Path, job: str) -> dict[int, float]:
    """
    When each attempt of *job* that a ledger saw began, Unix seconds; nothing is written.

    Empty where there is no file at *path* that we may read; `LedgerError` where it is no ledger.
    """
    if not os.access(path, os.R_OK):
        return {}
    with _translated():
        rows = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
        try:
            question = "SELECT attempt, started_at FROM attempts WHERE job = ?"
            return {attempt: at for attempt, at in rows.execute(question, (job,)) if at}
        finally:
            rows.close()


def _connected(path: Path | None) -> sqlite3.Connection:
    if path is None:
        return _prepared(":memory:")
    try:
        return _prepared(str(path))
    except sqlite3.OperationalError as error:
        raise LedgerError(f"{path}: {error}") from error
    except sqlite3.DatabaseError as error:
        aside = path.with_name(f"{path.name}.damaged-{int(time.time())}")
        log.warning("%s: %s; moved to %s, begun anew", path, error, aside.name)
        for suffix in ("", "-wal", "-shm"):
            file = path.with_name(path.name + suffix)
            if file.exists():
                file.rename(aside.with_name(aside.name + suffix))
    with _translated():
        return _prepared(str(path))


def _prepared(name: str) -> sqlite3.Connection:
    rows = sqlite3.connect(name, timeout=5)
    try:
        rows.execute("PRAGMA journal_mode = WAL")
        rows.execute("PRAGMA synchronous = NORMAL")
        (version,) = rows.execute("PRAGMA user_version").fetchone()
        (verdict,) = rows.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        if version not in {0, VERSION}:
            raise sqlite3.DatabaseError(f"version {version}, this program knows {VERSION}")
        if version == 0:
            rows.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
    except sqlite3.Error:
        rows.close()
        raise
    return rows


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerError(f"ledger: {error}") from error
