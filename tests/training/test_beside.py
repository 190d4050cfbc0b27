"""Commands in a directory in which a training saves and deletes all the while."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files import judging
from slurm_resilience.checkpoint_files.copies import copy_newest
from slurm_resilience.checkpoint_files.fetching import fetch_newest
from slurm_resilience.checkpoint_files.judging import judged, read
from slurm_resilience.checkpoint_files.listing import Found, directory_name, found
from slurm_resilience.checkpoint_files.quarantine import set_aside
from slurm_resilience.checkpoint_files.store import Store
from slurm_resilience.checkpoint_files.stored import copied
from slurm_resilience.cli import main
from slurm_resilience.errors import CheckpointPlaceError
from tests.training import jobs
from tests.training.ranks import Ranks, wait_for
from tests.training.three_saves import restored
from tests.whole import checkpoint

SAVES = 30
"""That a command meets."""


def newest(directory: Path) -> int:
    """The step saved last; -1: none is."""
    names = directory.glob("step-*") if directory.is_dir() else ()
    return max((int(path.name[5:]) for path in names), default=-1)


@pytest.fixture(params=[1, 2], ids=["one is kept", "two are kept"])
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Of a training that saves each step, as quickly as it can."""
    directory = tmp_path / "c"
    job = jobs.save_for_ever
    with Ranks(job, directory, request.param, world_size=1, folder=tmp_path / "b"):
        wait_for(lambda: newest(directory) >= 0)
        yield directory


def meanwhile(directory: Path) -> Iterator[int]:
    """Numbers, until the training has saved many times."""
    first = number = newest(directory)
    while newest(directory) < first + SAVES:
        yield number
        number += 1


@pytest.mark.parametrize("what", ["list", "verify", "path"])
def test_nothing_is_unsound_only_because_it_went(
    directory: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a training deletes between the listing and the reading is no damage, and there is always one."""
    for _ in meanwhile(directory):
        status = main(["checkpoint", what, str(directory)])

        out, err = capsys.readouterr()
        assert (status, err) == (0, "")
        assert "step-" in out if what == "path" else out.startswith("     STEP")


def test_what_prune_would_delete_is_not_confused_by_what_went(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so and no more; to delete is refused."""
    for _ in meanwhile(directory):
        assert main(["checkpoint", "prune", "--keep=1", "--dry-run", str(directory)]) == 0
        assert capsys.readouterr().err == ""

    assert main(["checkpoint", "prune", "--keep=1", str(directory)]) == 2


def test_copies_are_made_all_the_while(
    directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of a checkpoint that was there, none is called damaged; the last can be gone on from."""
    store = Store(f"file://{tmp_path}/copies")
    for _ in meanwhile(directory):
        assert copy_newest(directory, store, keep=1)

    assert caplog.text == ""
    step = copied(store)[0].manifest.step
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    assert fetch_newest(store, fetched) == fetched / directory_name(step)
    assert restored(fetched) == (step + 1, step)


def harms(directory: Path) -> dict[str, Callable[[], object]]:
    """What a training may do with the newest of two while it is read."""
    path = directory / directory_name(2)
    return {
        "deletes": lambda: shutil.rmtree(path),
        "replaces": lambda: (
            set_aside(path, "its step was saved again"),
            checkpoint(directory, 2, content=b"kontent"),
        ),
    }


@pytest.mark.parametrize(("harm", "left"), [("deletes", [1]), ("replaces", [2, 1])])
def test_what_is_replaced_while_it_is_read_is_read_anew(
    tmp_path: Path, harm: str, left: list[int]
) -> None:
    """Its files are not compared with the manifest that was there before."""
    checkpoint(tmp_path, 1)
    checkpoint(tmp_path, 2)
    todo = [harms(tmp_path)[harm]]

    def judge(entry: Found) -> str:
        if todo:
            todo.pop()()
        return read(entry)

    seen = judged(tmp_path, judge)

    assert [one.manifest.step for one in seen.sound if one.manifest] == left
    assert seen.unsound == {}


def test_checkpoints_that_go_sooner_than_they_can_be_read_are_not_judged(
    tmp_path: Path,
) -> None:
    """One line that says so; there is one, so that none is there would be wrong."""
    steps = iter(range(2, 99))
    checkpoint(tmp_path, 1)

    def judge(entry: Found) -> str:
        shutil.rmtree(entry.path)
        checkpoint(tmp_path, next(steps))
        return read(entry)

    with pytest.raises(CheckpointPlaceError, match="replaced sooner than they can be read"):
        judged(tmp_path, judge)

    assert next(steps) == judging.MOST_LOOKS + 2


def test_one_checkpoint_that_goes_is_not_called_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was asked for by name: exit status 2, could not look."""
    path = checkpoint(tmp_path, 1)

    def judge(entry: Found) -> str:
        shutil.rmtree(path)
        return read(entry)

    with pytest.raises(CheckpointPlaceError, match="No such file"):
        judged(path, judge)

    assert found(tmp_path) == []
    assert main(["checkpoint", "verify", str(path)]) == 2
    assert "No such file" in capsys.readouterr().err
