"""Trainings that are copied to object storage, and begin from there."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.copies import copy_newest
from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.checkpoint_files.store import Store
from slurm_resilience.checkpoint_files.stored import copied
from slurm_resilience.errors import CheckpointCopyError
from slurm_resilience.training import Checkpoints, Run
from tests.training.jobs import Level
from tests.training.ranks import wait_for
from tests.training.s3_server import S3
from tests.training.three_saves import saved


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Checkpoints of the steps 1, 3 and 5."""
    return saved(tmp_path / "c")


def trained(directory: Path, url: str, steps: int) -> int:
    """Train up to *steps*, copying; where the training began."""
    model = Level()
    checkpoints = Checkpoints(directory, every_steps=1, copies=url, copy_every_minutes=1)
    run = Run(checkpoints=checkpoints, state={"model": model})
    start = run.restore()
    for step in range(start, steps):
        model.rise(step)
        run.step(step)
    store = Store(url)
    if start < steps:
        wait_for(lambda: copied(store), within_s=60)
    run.finish()
    return start


def test_a_run_copies_beside_the_training_and_begins_from_there(
    store: Store, tmp_path: Path
) -> None:
    """The directory is lost; the next attempt fetches the copy by itself."""
    directory = tmp_path / "fast"
    directory.mkdir()
    trained(directory, store.url, 3)
    (step,) = {copy.manifest.step for copy in copied(store)}
    shutil.rmtree(directory)

    start = trained(directory, store.url, step + 1)

    assert start == step + 1


@pytest.mark.parametrize(
    ("what", "data", "says"),
    [
        ("rank-00000.tensors", b"cut", "missing or cut"),
        (manifests.NAME, b'{"crc32":1,', "is damaged"),
        (manifests.NAME, b'{"crc32":2745614147,"manifest":{}}', "written by a newer"),
    ],
    ids=["cut", "damaged", "newer"],
)
def test_a_run_does_not_begin_anew_where_the_only_copy_cannot_be_used(
    directory: Path, tmp_path: Path, what: str, data: bytes, says: str
) -> None:
    """One line names the copy and what is wrong with it."""
    store = Store(f"file://{tmp_path}/copies")
    name = copy_newest(directory, store, keep=2)
    store.write(f"{name}/{what}", iter([data]))

    with pytest.raises(CheckpointCopyError, match=says) as refused:
        trained(tmp_path / "fast", store.url, 1)

    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_run_says_that_an_older_copy_is_used(
    directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And why the newest is not: hours of training may be gone."""
    store = Store(f"file://{tmp_path}/copies")
    newest = directory / directory_name(5)
    hidden = newest.rename(directory / "hidden")
    copy_newest(directory, store, keep=2)
    hidden.rename(newest)
    name = copy_newest(directory, store, keep=2)
    store.write(f"{name}/rank-00000.tensors", iter([b"cut"]))

    assert trained(tmp_path / "fast", store.url, 4) == 4

    assert f"{name}: rank-00000.tensors is missing or cut" in caplog.text
    assert "an older copy is used" in caplog.text


def test_a_run_does_not_begin_anew_where_the_copies_cannot_be_asked(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be weeks of training in them."""
    for name, value in {**s3.environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(CheckpointCopyError, match="nothing fetched from s3://bucket/x"):
        trained(tmp_path / "fast", "s3://bucket/x", 1)


def test_the_copier_ends_with_a_training_that_is_killed(tmp_path: Path) -> None:
    """However that ends: it holds the other end of a pipe."""
    directory = tmp_path / "c"
    directory.mkdir()
    script = (
        "import sys, subprocess, os, time\n"
        "from pathlib import Path\n"
        "from slurm_resilience.training.copier import Copier\n"
        "from slurm_resilience.training import Checkpoints\n"
        "copier = Copier(Checkpoints(sys.argv[1], copies=sys.argv[2]))\n"
        "print(copier._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(directory), f"file://{tmp_path}/copies"],
        stdout=subprocess.PIPE,
        text=True,
    ) as training:
        assert training.stdout
        copier = int(training.stdout.readline())
        assert Path(f"/proc/{copier}").exists()
        training.kill()

    wait_for(lambda: not is_running(copier))


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
