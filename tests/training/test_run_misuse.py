"""What a script does wrong is said at once, in one line."""

import os
import signal
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import nn

from slurm_resilience.errors import ResilienceError, UsageError
from slurm_resilience.training import Checkpoints, Run
from tests.training.seen import steps_saved


@pytest.mark.parametrize(
    "wrong",
    [{"keep": 0}, {"keep": None}, {"keep_copies": None}, {"copy_every_minutes": None},
     {"every_steps": 0}, {"every_steps": 1.5}, {"every_minutes": 0.0},
     {"every_minutes": float("nan")}, {"every_steps": None, "every_minutes": None},
     {"copies": "s3:/bucket"}, {"copies": "s3//bucket"}, {"copies": "/mnt/copies"},
     {"if_busy": []}, {"copies": "s3:///path"}, {"copies": "s4://bucket/x"}, {"copies": ""}, {"copies": Path("/x")}],
)  # fmt: skip
def test_nonsense_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """Settings that would save nothing, or keep nothing, never start a training."""
    with pytest.raises(UsageError):
        Checkpoints(tmp_path, **wrong)


def test_misuse_is_said(tmp_path: Path) -> None:
    """No restore, a step counter that starts again, a state without names."""
    with pytest.raises(UsageError, match="names"):
        Run(checkpoints=Checkpoints(tmp_path / "c"), state={})
    for odd in ([], ["model"], "model", nn.Linear(1, 1), MappingProxyType({"n": 1}), {1: 1}):
        with pytest.raises(UsageError, match="names"):
            Run(checkpoints=Checkpoints(tmp_path / "c"), state=odd)  # type: ignore[arg-type]
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1})
    with pytest.raises(UsageError, match="restore"):
        run.step(0)
    run.restore()
    run.step(5)
    with pytest.raises(UsageError, match="after step 5"):
        run.step(0)
    run.close()


@pytest.mark.parametrize(
    "step",
    [1.0, "0", True, None, -1, 1 << 63, torch.tensor(1.5), torch.tensor([1, 2])],
    ids=["float", "text", "bool", "None", "negative", "huge", "float tensor", "two"],
)
def test_a_step_that_is_no_number_is_refused(
    tmp_path: Path,
    step: Any,  # noqa: ANN401 - whatever a script may hand over
) -> None:
    """At once: each save would fail, hours later."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1})
    run.restore()

    with pytest.raises(UsageError, match="a step is a whole number") as refused:
        run.step(step)

    run.close()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "loss",
    [{"total": 1.0}, [1.0], "0.5", 1j, torch.rand(3).to_sparse(), torch.rand(1, device="meta")],
    ids=["dict", "list", "text", "complex", "sparse", "without numbers"],
)
def test_a_loss_that_is_no_number_is_refused(
    tmp_path: Path,
    loss: Any,  # noqa: ANN401 - whatever a script may hand over
) -> None:
    """At the first step, and not by the first save."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1})
    run.restore()

    with pytest.raises(UsageError, match="a loss is a number or a tensor") as refused:
        run.step(0, loss=loss)

    assert "\n" not in str(refused.value)
    assert not run.step(0, loss=torch.rand(2, 3))
    run.close()


@pytest.mark.parametrize("kind", ["numpy.int64", "numpy.uint8", "torch.tensor"])
def test_whole_numbers_of_other_kinds_count_as_steps(tmp_path: Path, kind: str) -> None:
    """A counter may well be numpy's or torch's."""
    module, _, name = kind.partition(".")
    count = getattr(import_module(module), name)
    run = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=1), state={"n": 1})
    run.restore()
    for step in range(2):
        run.step(count(step))
    run.finish()

    assert steps_saved(tmp_path / "c") == [0, 1]


def test_a_directory_that_cannot_be_used_is_refused_early(tmp_path: Path) -> None:
    """A mount that is not there, a file in the way: one line that names it."""
    (tmp_path / "file").write_text("")
    for directory, says in (
        (tmp_path / "mount" / "ckpt", "mounted"),
        (tmp_path / "file", "not a directory"),
        (tmp_path / "file" / "ckpt", "does not exist"),
    ):
        run = Run(checkpoints=Checkpoints(directory), state={"n": 1})
        with pytest.raises(ResilienceError, match=says) as refused:
            run.restore()
        run.close()
        assert str(tmp_path) in str(refused.value)


def test_going_on_after_the_word_to_stop_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is done after it is not saved, and `finish` would not tell."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1})
    run.restore()
    os.kill(os.getpid(), signal.SIGUSR2)
    assert run.step(0)

    assert run.step(1)
    assert run.step(2)

    run.finish()
    assert caplog.text.count("told to stop: nothing is saved after step 0") == 1
