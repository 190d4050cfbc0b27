"""The checkpoint that a training ends with is copied before `finish` returns."""

import importlib.util
import logging
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.store import Store
from slurm_resilience.checkpoint_files.stored import copied
from slurm_resilience.checkpoint_files.thinning import part_folder
from slurm_resilience.training import Checkpoints, Run
from tests.missing import missing
from tests.training import node_jobs
from tests.training.jobs import Level
from tests.training.ranks import on_ranks
from tests.training.three_saves import saved


@pytest.fixture(autouse=True)
def needs_fsspec() -> None:
    """All of this goes through it."""
    if importlib.util.find_spec("fsspec") is None:
        missing("fsspec is not installed")


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """Where copies go."""
    return tmp_path / "copies"


def run(directory: Path, url: str) -> Run:
    """Saves only at the end, and copies at the beginning, when there is nothing."""
    return Run(checkpoints=Checkpoints(directory, copies=url), state={"model": Level()})


def steps(store: Store) -> list[int]:
    """Of whole copies."""
    return [copy.manifest.step for copy in copied(store)]


def test_a_short_run_leaves_a_copy(tmp_path: Path, copies: Path) -> None:
    """Of its last step, although the next copy would be due in two hours."""
    training = run(tmp_path / "c", f"file://{copies}")
    training.restore()
    training.step(0)

    training.finish()

    assert steps(Store(f"file://{copies}")) == [0]


def test_a_copy_that_fails_at_the_end_is_one_warning(
    tmp_path: Path, copies: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With what the storage says; the training has ended well."""
    training = run(tmp_path / "c", f"file://{copies}")
    training.restore()
    training.step(0)
    copies.write_text("in the way")

    training.finish()

    (warning,) = [one for one in caplog.records if "last checkpoint" in one.getMessage()]
    assert warning.levelno == logging.WARNING
    assert f"file://{copies} is a file" in warning.getMessage()


def test_poison_is_not_copied_at_the_end(tmp_path: Path, copies: Path) -> None:
    """The newest without is."""
    checkpoints = Checkpoints(tmp_path / "c", every_steps=1, copies=f"file://{copies}")
    training = Run(checkpoints=checkpoints, state={"model": Level()})
    training.restore()
    training.step(0)
    training.step(1, loss=float("nan"))

    training.finish()

    assert steps(Store(f"file://{copies}")) == [0]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a storage that takes connections and says nothing."""
    if importlib.util.find_spec("s3fs") is None:
        missing("s3fs is not installed")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        for name, value in {
            "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "s",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        yield "s3://bucket/x"


def test_who_is_told_to_stop_copies_nothing_more(tmp_path: Path, silent: str) -> None:
    """Its time is short."""
    training = run(saved(tmp_path / "c"), silent)
    training.restore()
    os.kill(os.getpid(), signal.SIGUSR2)

    assert training.step(6)
    training.finish()


def test_a_notice_ends_the_wait_for_the_last_copy(
    tmp_path: Path, silent: str, caplog: pytest.LogCaptureFixture
) -> None:
    """That finish() waits, and for how much, was said before."""
    training = run(saved(tmp_path / "c"), silent)
    training.restore()
    training.step(6)

    class Impatient(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "finish() waits" in record.getMessage():
                os.kill(os.getpid(), signal.SIGUSR2)

    impatient = Impatient()
    logging.getLogger("slurm_resilience").addHandler(impatient)
    try:
        training.finish()
    finally:
        logging.getLogger("slurm_resilience").removeHandler(impatient)

    assert "finish() waits until step 6 (" in caplog.text
    assert "MiB) to s3://bucket/x is copied" in caplog.text
    assert "told to stop meanwhile" in caplog.text


def test_every_node_copies_its_part_of_the_last_save(tmp_path: Path, copies: Path) -> None:
    """All of the same one, into a folder of its own."""
    disks = [tmp_path / "n0", tmp_path / "n1"]
    for disk in disks:
        disk.mkdir()

    url = f"file://{copies}"
    on_ranks(node_jobs.save_and_finish, disks, url, world_size=4, folder=tmp_path / "b")

    parts = [copied(Store(f"{url}/{part_folder(rank)}"))[0].manifest for rank in (0, 2)]
    assert [part.step for part in parts] == [2, 2]
    assert parts[0].identity == parts[1].identity
