"""What `Checkpoints` takes, and what it refuses in one line."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slurm_resilience.errors import CheckpointPlaceError, UsageError
from slurm_resilience.training import Checkpoints, Run
from tests.training.seen import steps_saved

COUNTS = ["every_steps", "keep", "keep_copies", "copy_every_minutes"]


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(
    "value", [True, 0, -1, 1.0, "3", 1 << 63, np.int64(0), [1], torch.tensor([1, 2])], ids=repr
)
def test_what_is_no_count_is_refused(
    name: str,
    value: Any,  # noqa: ANN401 - whatever a script may hand over
) -> None:
    """The line names the argument, and says what it may be."""
    with pytest.raises(UsageError, match=rf"^Checkpoints: {name} is .*whole number") as refused:
        Checkpoints("/c", **{name: value})

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [np.int64(3), np.uint8(3), torch.tensor(3)], ids=repr)
def test_whole_numbers_of_other_kinds_are_taken(
    name: str,
    value: Any,  # noqa: ANN401 - whatever a script may hand over
) -> None:
    """As Python's own: what is said or sent of them is the same."""
    taken = getattr(Checkpoints("/c", **{name: value}), name)

    assert (taken, type(taken)) == (3, int)


@pytest.mark.parametrize(
    "value", [True, "30", 0, -1.0, float("nan"), float("inf"), 10**400, 1j, [30]], ids=str
)
def test_what_is_no_time_is_refused(
    value: Any,  # noqa: ANN401 - whatever a script may hand over
) -> None:
    """The line names the argument."""
    with pytest.raises(UsageError, match=r"every_minutes is .*number of minutes") as refused:
        Checkpoints("/c", every_minutes=value)

    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("value", [np.float32(0.5), 0.5, torch.tensor(0.5)], ids=repr)
def test_numbers_of_other_kinds_are_times(
    value: Any,  # noqa: ANN401 - whatever a script may hand over
) -> None:
    """Whole or not."""
    assert Checkpoints("/c", every_minutes=value).due.every_s == 30.0


@pytest.mark.parametrize("value", ["yes", "no", 1, None])
def test_what_is_neither_true_nor_false_is_refused(
    value: Any,  # noqa: ANN401 - whatever a script may hand over
) -> None:
    """Also "no", which Python takes for true."""
    with pytest.raises(UsageError, match=r"per_node is .*True or False"):
        Checkpoints("/c", per_node=value)


@pytest.mark.parametrize("name", ["directory", "training_data"])
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "a path"), ("a\0b", "a path"), (3, "a path"), (b"/c", "a path"),
        ("~nobody-of-that-name/c", "no such home directory"),
        ("s3://bucket/x", "no URL"), ("file:///c", "no URL"), ("simplecache::gs://b/x", "no URL"),
        (Path("s3://bucket/x"), "no URL"),
    ],
)  # fmt: skip
def test_what_is_no_path_is_refused(
    name: str,
    value: Any,  # noqa: ANN401 - whatever a script may hand over
    says: str,
) -> None:
    """Before a directory of that name is made."""
    with pytest.raises(UsageError, match=f"Checkpoints: {name} is .*{says}"):
        Checkpoints(**{"directory": "/c", name: value})


def test_for_a_url_copies_is_named() -> None:
    """It is what was meant."""
    with pytest.raises(UsageError, match="give copies= the URL"):
        Checkpoints("s3://bucket/x")


def test_a_home_directory_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No folder of the name `~` is made."""
    monkeypatch.setenv("HOME", str(tmp_path))

    checkpoints = Checkpoints("~/c", training_data="~/d")

    assert (checkpoints.path, checkpoints.data_path) == (tmp_path / "c", tmp_path / "d")


def test_a_relative_directory_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever the script goes after that: saves, words on the place, copies."""
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    checkpoints = Checkpoints("c", every_steps=1, training_data="sub")
    run = Run(checkpoints=checkpoints, state={"n": 1})
    os.chdir("sub")

    run.restore()
    os.chdir("/")
    run.step(0)
    run.finish()

    assert steps_saved(tmp_path / "c") == [0]
    assert "cannot be judged" not in caplog.text
    assert f"training data ({tmp_path}/sub)" in caplog.text


def test_a_relative_directory_needs_one_to_begin_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working directory was deleted."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(UsageError, match="the working directory is gone"):
        Checkpoints("c")


def test_a_link_that_leads_nowhere_is_called_one(tmp_path: Path) -> None:
    """It is not in the way: what it leads to is missing."""
    (tmp_path / "c").symlink_to("/mnt/not-there/ckpt")
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1})

    with pytest.raises(
        CheckpointPlaceError, match="is a link to /mnt/not-there/ckpt, which is"
    ):
        run.restore()
    run.close()
