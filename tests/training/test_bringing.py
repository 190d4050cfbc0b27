"""Where copies are fetched from: whose the directory is comes first, and each error keeps its kind."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.copies import copy_newest
from slurm_resilience.checkpoint_files.fetching import fetch_newest
from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.checkpoint_files.owner import Claim, last_owner, owner
from slurm_resilience.checkpoint_files.store import Store
from slurm_resilience.cli import main
from slurm_resilience.errors import CheckpointInUseError, CheckpointPlaceError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.training.bringing import opened
from slurm_resilience.training.peers import Peers
from tests.training.jobs import Level
from tests.training.three_saves import saved

JOB = {"SLURM_JOB_ID": "77"}
SMALL = """
import sys
from slurm_resilience.errors import CheckpointError
from slurm_resilience.training import Checkpoints, Run
run = Run(checkpoints=Checkpoints(sys.argv[1], copies=sys.argv[2]), state={"n": 1})
try:
    run.restore()
except CheckpointError as error:
    print(f"{type(error).__name__}: {error}")
run.close()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A copy of step 5."""
    there = f"file://{tmp_path}/copies"
    copy_newest(saved(tmp_path / "lost"), Store(there), keep=2)
    return there


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """An empty directory whose lock is held by an attempt of job 77."""
    directory = tmp_path / "c"
    directory.mkdir()
    claim = Claim(directory, owner(JOB, node="lost", pid=1))
    yield directory
    claim.release()


def become(monkeypatch: pytest.MonkeyPatch, job: str, restarts: int) -> None:
    """This process belongs to that attempt from now on."""
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(restarts))


def restored(directory: Path, url: str) -> int:
    """The first step to do."""
    run = Run(checkpoints=Checkpoints(directory, copies=url), state={"model": Level()})
    try:
        return run.restore()
    finally:
        run.close()


def test_an_attempt_fetches_though_a_lost_node_holds_the_lock(
    held: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes over as where nothing is to be fetched."""
    become(monkeypatch, "77", 1)

    assert restored(held, url) == 6

    last = last_owner(held)
    assert last
    assert last.generation == (1, 0)


def test_another_job_is_told_that_the_directory_is_in_use(
    held: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the error that stops it: it would never come free."""
    become(monkeypatch, "78", 0)

    with pytest.raises(CheckpointInUseError, match="in use by job 77"):
        restored(held, url)

    assert not found(held)


def test_a_plain_file_in_the_way_is_said_as_without_copies(tmp_path: Path, url: str) -> None:
    """One line names it and says what to do."""
    (tmp_path / "c").touch()

    with pytest.raises(CheckpointPlaceError, match="is not a directory; move it away"):
        restored(tmp_path / "c", url)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_no_room_for_what_is_fetched_is_a_matter_of_the_place(tmp_path: Path, url: str) -> None:
    """The copy is sound: to try again would find as little room."""
    mount = tmp_path / "mount"
    mount.mkdir()
    shell = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'

    ended = subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", shell, str(mount),
         sys.executable, "-c", SMALL, str(mount / "c"), url],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    assert ended.stdout.startswith("CheckpointPlaceError: ")
    assert "make room" in ended.stdout


def test_who_only_looks_gives_the_directory_back(
    held: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claimed once more by the same attempt, it is taken over once more."""
    become(monkeypatch, "77", 1)
    peers = Peers(timeout_s=60.0)
    hold = opened(Checkpoints(held, copies=url), peers, -1)

    hold.give_back(peers)

    last = last_owner(held)
    assert last
    assert last.node == "lost"
    assert restored(held, url) == 6


class Meanwhile(Store):
    """A store that is so slow that something happens before the first byte comes."""

    def __init__(self, url: str, happens: Callable[[], object]) -> None:
        super().__init__(url)
        self._happens = [happens]
        self._turn = threading.Lock()

    def blocks(self, name: str) -> Iterator[bytes]:
        """After it has happened."""
        with self._turn:
            if self._happens:
                self._happens.pop()()
        return super().blocks(name)


def test_nothing_is_given_its_name_once_another_has_taken_over(held: Path, url: str) -> None:
    """What has the name by then may be the other's."""
    later = owner({**JOB, "SLURM_RESTART_COUNT": "1"}, node="n2", pid=1)
    mine = last_owner(held)
    assert mine
    store = Meanwhile(url, lambda: Claim(held, later, wait_s=0.0).release())

    with pytest.raises(CheckpointInUseError, match="taken over by job 77, attempt 1"):
        fetch_newest(store, held, owner=mine.token)

    assert not found(held)
    assert not list(held.glob(".saving-*"))


def test_who_is_no_owner_any_more_fetches_nothing(
    held: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next attempt has taken over meanwhile."""
    assert main(["checkpoint", "fetch", url, str(held), "--owner=0123", "--json"]) == 2

    said = capsys.readouterr()
    assert '"error": "CheckpointInUseError"' in said.out
    assert "taken over by job 77" in said.err
    assert not found(held)
