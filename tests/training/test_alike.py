"""A module of which each rank has its own: never one rank's for all."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.training import Checkpoints, Run
from tests.training.jobs import finished
from tests.training.ranks import on_ranks
from tests.training.seen import heard


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
    said = heard()
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
    word = finished(run)
    return said.getvalue() + word


def saved_as(directory: Path, kind: str) -> str:
    """One save of parameters that are nearly the same on two ranks; what the log and `finish` say."""
    said = heard()
    torch.manual_seed(3)
    layer = nn.Linear(50, 50)
    with torch.no_grad():
        if dist.get_rank() and kind == "rounded":
            layer.weight.mul_(1 + 1e-6)
        elif kind == "zero":
            layer.weight.fill_(-0.0 if dist.get_rank() else 0.0)
        elif kind == "nan":
            odd = torch.tensor([0x7FC00000 + dist.get_rank()], dtype=torch.int32)
            layer.weight.copy_(odd.view(torch.float32).expand(50, 50))
    run = Run(checkpoints=Checkpoints(directory), state={"layer": layer})
    run.step(run.restore())
    word = finished(run)
    return said.getvalue() + word


def batch_norm(directory: Path, steps: int) -> tuple[int, list[float]]:
    """Train in DistributedDataParallel, each rank its own data; where it began, the running means."""
    torch.manual_seed(1)
    norms = [nn.BatchNorm1d(4), nn.BatchNorm1d(4)]
    model = DistributedDataParallel(nn.Sequential(norms[0], nn.Linear(4, 4), norms[1]))
    run = Run(checkpoints=Checkpoints(directory), state={"model": model})
    start = run.restore()
    for step in range(start, steps):
        data = torch.Generator().manual_seed(100 * step + dist.get_rank())
        model(torch.randn(8, 4, generator=data) + dist.get_rank()).sum().backward()
        run.step(step)
    run.finish()
    means = [norm.running_mean for norm in norms if norm.running_mean is not None]
    return start, [float(number) for mean in means for number in mean]


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


@pytest.mark.parametrize("kind", ["rounded", "zero", "nan"])
def test_parameters_that_have_drifted_apart_are_saved(tmp_path: Path, kind: str) -> None:
    """Other kernels round otherwise; it is said."""
    said = on_ranks(saved_as, tmp_path / "c", kind, world_size=2, folder=tmp_path / "b")

    assert "layer/weight on ranks 0 and 1 have drifted apart" in said[0]
    assert len(found(tmp_path / "c")) == 1


def test_batch_normalization_goes_on_as_undisturbed(tmp_path: Path) -> None:
    """All buffers are those of the rank that gives its own to the others at the next step."""
    undisturbed = on_ranks(batch_norm, tmp_path / "one", 6, world_size=2, folder=tmp_path / "b")
    on_ranks(batch_norm, tmp_path / "two", 3, world_size=2, folder=tmp_path / "b")

    resumed = on_ranks(batch_norm, tmp_path / "two", 6, world_size=2, folder=tmp_path / "b")

    assert resumed[0] == (3, undisturbed[0][1])


def test_buffers_may_differ(tmp_path: Path) -> None:
    """As those of batch normalization do in DistributedDataParallel."""
    said = on_ranks(saved, tmp_path / "c", "buffers", world_size=2, folder=tmp_path / "b")

    assert "is not the same" not in said[0]
    assert len(found(tmp_path / "c")) == 1


def test_experts_of_each_rank_come_back_to_it(tmp_path: Path) -> None:
    """In an object of one's own."""
    on_ranks(saved, tmp_path / "c", "own", world_size=2, folder=tmp_path / "b")

    assert on_ranks(restored, tmp_path / "c", world_size=2, folder=tmp_path / "b") == [0.0, 1.0]
