"""A training in one process: what it saves, what it gets back, what it is told."""

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.errors import CheckpointError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.training.writer import read_back
from tests.training.jobs import Level, Sampler
from tests.training.seen import steps_saved


def trained(directory: Path, *, until: int, every_steps: int = 10, keep: int = 3) -> nn.Module:
    """A small model after *until* steps, whether or not some were done before."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[4, 9, 9])
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    with Run(checkpoints=Checkpoints(directory, every_steps, keep=keep), state=state) as run:
        for step in range(run.restore(), until):
            loss = model(torch.rand(4, 8) + random.random()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            run.step(step)
    return model


def test_a_resumed_run_equals_an_undisturbed_one_bit_for_bit(tmp_path: Path) -> None:
    """Model, optimizer, scheduler and random numbers go on as if nothing had happened."""
    random.seed(1)
    undisturbed = trained(tmp_path / "one", until=20)
    random.seed(1)
    for until in (3, 4, 12):
        trained(tmp_path / "many", until=until)

    resumed = trained(tmp_path / "many", until=20)

    for name, tensor in undisturbed.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_numbers_samplers_and_tensors_come_back(tmp_path: Path) -> None:
    """Whatever stands in the state stands there again, with its type."""
    kept: dict[str, Any] = {
        "sampler": Sampler(5), "best": float("-inf"), "big": 1 << 200, "empty": None,
        "nested": {"a": (1, [2.5, "x"]), 7: {True}, None: torch.zeros(0, 3)},
        "weights": torch.rand(3, 4).to(torch.bfloat16).t(),
    }  # fmt: skip
    sampler = kept["sampler"]
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state=kept)
    run.restore()
    sampler.next()
    run.step(0)
    run.finish()
    wanted = sampler.next()
    fresh: dict[str, Any] = {
        "sampler": Sampler(6), "best": 0, "big": 0, "empty": 0, "nested": 0,
        "weights": torch.zeros(4, 3, dtype=torch.bfloat16),
    }  # fmt: skip

    again = Run(checkpoints=Checkpoints(tmp_path / "c"), state=fresh)
    start = again.restore()
    again.close()

    assert start == 1
    assert fresh["sampler"].next() == wanted
    assert (fresh["best"], fresh["big"], fresh["empty"]) == (float("-inf"), 1 << 200, None)
    assert fresh["nested"]["a"] == (1, [2.5, "x"])
    assert fresh["nested"][7] == {True}
    assert fresh["nested"][None].shape == (0, 3)
    assert torch.equal(fresh["weights"], kept["weights"])


def test_a_checkpoint_holds_the_values_of_the_call(tmp_path: Path) -> None:
    """What training changes while the save is being written is not in it."""
    model = Level()
    run = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=1), state={"model": model})
    run.restore()
    model.rise(0)
    run.step(0)
    model.rise(99)
    run.finish()

    model.rise(98)
    again = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"model": model})
    again.restore()
    again.close()

    assert model.level() == 0


def test_the_newest_few_are_kept(tmp_path: Path) -> None:
    """Older checkpoints go only as far as `keep` says; the final one counts."""
    trained(tmp_path / "c", until=11, every_steps=2, keep=2)

    assert steps_saved(tmp_path / "c") == [9, 10]


def test_the_clock_makes_a_save_due(tmp_path: Path) -> None:
    """Few steps in a long time are saved too."""
    checkpoints = Checkpoints(tmp_path / "c", every_steps=None, every_minutes=1e-9)
    run = Run(checkpoints=checkpoints, state={"n": 1})
    run.restore()
    run.step(0)
    run.finish(save=False)

    assert steps_saved(tmp_path / "c") == [0]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR2])
def test_a_signal_saves_and_stops_at_the_next_step(tmp_path: Path, signum: int) -> None:
    """The handler that was there before is called, and is back afterwards."""
    called = []
    before = signal.signal(signum, lambda *_: called.append(signum))
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1})
    run.restore()
    answers = [run.step(0)]
    os.kill(os.getpid(), signum)

    answers.append(run.step(1))
    saved = steps_saved(tmp_path / "c")
    run.finish()

    assert answers == [False, True]
    assert saved == [1] == steps_saved(tmp_path / "c")
    assert called == [signum]
    os.kill(os.getpid(), signum)
    assert called == [signum, signum]
    signal.signal(signum, before)


def test_a_forked_child_neither_saves_nor_takes_the_notice(tmp_path: Path) -> None:
    """A data loader's worker dies of SIGTERM as it would without us, and its step() is nothing."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=1), state={"n": 1})
    run.restore()
    child = os.fork()
    if child == 0:
        run.step(0)
        run.finish()
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)

    _, status = os.waitpid(child, 0)

    assert os.WTERMSIG(status) == signal.SIGTERM
    assert steps_saved(tmp_path / "c") == []
    assert not run.step(0)
    run.finish()


@pytest.mark.parametrize("name", ["manifest.json", "index.json", "rank-00000.values"])
def test_a_save_counts_only_if_every_file_reads_back_as_it_was_written(
    tmp_path: Path, name: str
) -> None:
    """The manifest too, byte for byte: one that means the same is not the one that was written."""
    trained(tmp_path / "c", until=11)
    entry = found(tmp_path / "c")[0]
    assert entry.manifest
    read_back(entry.path, entry.path, entry.manifest.files, entry.manifest)
    with (entry.path / name).open("ab") as file:
        file.write(b" ")

    with pytest.raises(CheckpointError, match=f"{name}.*does not read back"):
        read_back(entry.path, entry.path, entry.manifest.files, entry.manifest)


def test_an_exception_gives_the_signals_back(tmp_path: Path) -> None:
    """Leaving the block by an exception saves no half-done step and hides nothing."""
    before = signal.getsignal(signal.SIGTERM)

    def train() -> None:
        with Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1}) as run:
            run.step(run.restore())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()

    assert signal.getsignal(signal.SIGTERM) == before
    assert steps_saved(tmp_path / "c") == []
