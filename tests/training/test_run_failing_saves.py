"""A save that fails costs the save."""

import resource
from pathlib import Path

import pytest
import torch

from slurm_resilience.errors import CheckpointError
from slurm_resilience.training import Checkpoints, Run
from tests.training.jobs import Level
from tests.training.seen import limited, steps_saved


def test_a_save_that_fails_does_not_end_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, nothing half written stays, the one before stays, the next one counts."""
    model = Level()
    run = Run(
        checkpoints=Checkpoints(tmp_path / "c", every_steps=1, keep=1), state={"m": model}
    )
    run.restore()
    run.step(0)
    with limited(resource.RLIMIT_FSIZE, 100_000):
        run.step(1)
        run.step(2)
    during = caplog.text
    run.step(3)
    run.finish()

    assert "step 1 is not saved" in during
    assert "File too large" in during
    assert steps_saved(tmp_path / "c") == [3]
    assert not list((tmp_path / "c").glob(".saving-*"))


def test_a_save_that_finds_no_host_memory_does_not_end_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said; the next one, with room, counts."""
    state = {"x": torch.zeros(1 << 26)}
    run = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=1), state=state)
    run.restore()
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with limited(resource.RLIMIT_AS, in_use + (1 << 27)):
        run.step(0)
    run.step(1)
    run.finish()

    assert "step 0 is not saved: no host memory to copy to: Cannot allocate" in caplog.text
    assert steps_saved(tmp_path / "c") == [1]


def test_finish_raises_where_the_last_save_failed(tmp_path: Path) -> None:
    """A training that ends with nothing saved does not look like one that went well."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"model": Level()})
    run.restore()
    run.step(0)

    with (
        limited(resource.RLIMIT_FSIZE, 100_000),
        pytest.raises(CheckpointError, match="step 0 is not saved"),
    ):
        run.finish()
