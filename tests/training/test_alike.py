"""A module of which each rank has its own: never one rank's for all."""

import io
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.errors import CheckpointSaveError
from slurm_resilience.training import Checkpoints, Run
from tests.training.ranks import on_ranks


class Own:
    """What belongs to a rank, as the document says."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def state_dict(self) -> dict[str, Any]:
        return self.module.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.module.load_state_dict(state)


def experts(*, wider: bool = False) -> nn.Linear:
    """A layer that is different on each rank, or has another shape there."""
    rank = dist.get_rank()
    layer = nn.Linear(100, 100 + (rank if wider else 0))
    nn.init.constant_(layer.weight, 1.0)
    nn.init.constant_(layer.bias, rank)
    return layer


def saved(directory: Path, how: str) -> str:
    """One save; what the log and `finish` say."""
    said = io.StringIO()
    logging.getLogger("slurm_resilience").addHandler(logging.StreamHandler(said))
    layer = experts(wider=how == "wider")
    state: dict[str, Any] = {"experts": Own(layer) if how == "own" else layer}
    if how == "optimizer":
        state = {"opt": torch.optim.AdamW(layer.parameters())}
        layer(torch.full((1, 100), dist.get_rank() + 1.0)).sum().backward()
        state["opt"].step()
    if how == "buffers":
        alike = nn.BatchNorm1d(10)
        alike(torch.randn(4, 10) + dist.get_rank())
        state = {"norm": alike}
    run = Run(checkpoints=Checkpoints(directory), state=state)
    run.step(run.restore())
    try:
        run.finish()
    except CheckpointSaveError as error:
        said.write(str(error))
    return said.getvalue()


def restored(directory: Path) -> float:
    """The bias of this rank's experts."""
    layer = experts()
    nn.init.constant_(layer.bias, -1.0)
    run = Run(checkpoints=Checkpoints(directory), state={"experts": Own(layer)})
    run.restore()
    run.close()
    return float(layer.bias[99])


@pytest.mark.parametrize("how", ["same shape", "wider", "optimizer"])
def test_experts_are_not_saved_by_one_rank_for_all(tmp_path: Path, how: str) -> None:
    """The save is refused; the line names one of them and what to do."""
    said = on_ranks(saved, tmp_path / "c", how, world_size=2, folder=tmp_path / "b")

    assert "is not the same on ranks 0 and 1" in said[0]
    assert "object of your own" in said[0]
    assert not found(tmp_path / "c")


def test_buffers_may_differ(tmp_path: Path) -> None:
    """As those of batch normalization do in DistributedDataParallel."""
    said = on_ranks(saved, tmp_path / "c", "buffers", world_size=2, folder=tmp_path / "b")

    assert "is not the same" not in said[0]
    assert len(found(tmp_path / "c")) == 1


def test_experts_of_each_rank_come_back_to_it(tmp_path: Path) -> None:
    """In an object of one's own."""
    on_ranks(saved, tmp_path / "c", "own", world_size=2, folder=tmp_path / "b")

    assert on_ranks(restored, tmp_path / "c", world_size=2, folder=tmp_path / "b") == [0.0, 1.0]
