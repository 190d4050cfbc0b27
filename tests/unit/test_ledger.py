"""The ledger keeps what Slurm forgets, and losing it never stops anybody."""

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.errors import LedgerError
from slurm_resilience.incident import Incident
from slurm_resilience.ledger import Ledger
from slurm_resilience.slurm.values import Job

RUNNING = Job("7", "RUNNING", user_id=1001, nodes=("n1", "n2"), started_at=1000.0)
INCIDENT = Incident(
    job="7", attempt=0, kind="crash", class_="hardware", cause="xid-79",
    reason="GPU has fallen off the bus", retry="exclude-node", detected_at=1060.0,
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    ledger = Ledger(path)
    yield ledger
    ledger.close()


def test_the_nodes_of_an_attempt_outlive_the_requeue(path: Path, ledger: Ledger) -> None:
    """Slurm shows none once the job is pending; a controller started anew still knows them."""
    ledger.saw_attempts([RUNNING])
    ledger.saw_attempts([RUNNING])
    ledger.close()

    again = Ledger(path)

    assert again.nodes_of("7", 0) == ("n1", "n2")
    assert again.nodes_of("7", 1) == ()
    again.close()


def test_exclusions_keep_the_time_they_were_added(ledger: Ledger) -> None:
    """So that they can expire, oldest first; what is no longer excluded is forgotten."""
    ledger.set_exclusions("7", ["n2"], at=100.0)
    ledger.set_exclusions("7", ["n2", "n3"], at=200.0)
    assert ledger.exclusions("7") == {"n2": 100.0, "n3": 200.0}

    ledger.set_exclusions("7", ["n3"], at=300.0)
    assert ledger.exclusions("7") == {"n3": 200.0}
    assert ledger.exclusions("8") == {}


def test_steps_are_counted_within_a_window(ledger: Ledger) -> None:
    """Of one job, of one kind, since a moment."""
    for at in (100.0, 200.0, 300.0):
        ledger.decided("7", 0, step="early-start", because="x", at=at)
    ledger.decided("7", 0, step="Mark", because="x", at=300.0)
    ledger.decided("8", 0, step="early-start", because="x", at=300.0)

    assert ledger.count_decisions("7", step="early-start", since=200.0) == 2


def test_the_first_telling_of_an_incident_is_kept(path: Path, ledger: Ledger) -> None:
    """It is seen again at each tick."""
    ledger.saw_incident(INCIDENT, at=1061.0)
    ledger.saw_incident(INCIDENT, at=1062.0)

    with sqlite3.connect(path) as rows:
        assert rows.execute("SELECT job, attempt, seen_at FROM incidents").fetchall() == [
            ("7", 0, 1061.0)
        ]
    rows.close()


def test_what_is_old_is_forgotten(ledger: Ledger) -> None:
    """The file does not grow for ever."""
    ledger.saw_attempts([RUNNING])
    ledger.set_exclusions("7", ["n2"], at=100.0)

    ledger.forget(before=2000.0)

    assert ledger.nodes_of("7", 0) == ()
    assert ledger.exclusions("7") == {}


@pytest.mark.parametrize(
    "damage", [b"not a database at all", b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_damaged_ledger_is_put_aside_and_begun_anew(
    path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once, and kept for whoever wants to look."""
    path.write_bytes(damage)

    with caplog.at_level(logging.WARNING):
        ledger = Ledger(path)
    ledger.saw_attempts([RUNNING])

    assert ledger.nodes_of("7", 0) == ("n1", "n2")
    (aside,) = path.parent.glob("ledger.sqlite.damaged-*")
    assert aside.read_bytes() == damage
    assert f"moved to {aside.name}" in caplog.text
    ledger.close()


def test_a_ledger_of_a_newer_version_is_put_aside(path: Path) -> None:
    """Nothing is guessed about what its columns mean."""
    with sqlite3.connect(path) as rows:
        rows.execute("PRAGMA user_version = 99")
    rows.close()

    Ledger(path).close()

    assert list(path.parent.glob("ledger.sqlite.damaged-*"))


def test_a_place_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    """With the path in it."""
    with pytest.raises(LedgerError, match=r"missing/ledger.sqlite: unable to open"):
        Ledger(tmp_path / "missing" / "ledger.sqlite")
