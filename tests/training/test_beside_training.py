"""Saves that follow one another closely, beside a training that goes on using its ranks and memory."""

import resource
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.training import Checkpoints, Run
from tests.training.jobs import finished
from tests.training.ranks import on_ranks


class Tied(nn.Module):
    """Seven rows, which no even number of ranks shares evenly, and one weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 3)
        self.head = nn.Linear(3, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.embedding(numbers))
        return scores


def sharded_and_saved_each_step(directory: Path, until: int) -> tuple[int, str]:
    """Where it began, and all parameters in the end."""
    torch.manual_seed(0)
    model = Tied()
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    state = {"model": model, "optimizer": optimizer}
    run = Run(checkpoints=Checkpoints(directory, every_steps=1), state=state)
    start = run.restore()
    for step in range(start, until):
        optimizer.zero_grad()
        model(torch.arange(7)).square().mean().backward()
        optimizer.step()
        run.step(step)
    run.finish()
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    values = {name: one.tolist() for name, one in whole.items() if torch.is_tensor(one)}
    return start, str(values)


def with_collectives(directory: Path, steps: int) -> str:
    """Save each step, the script's own collectives running on torch's group meanwhile."""
    state = {"model": nn.Linear(300, 300), "own": torch.zeros(200_000)}
    run = Run(checkpoints=Checkpoints(directory, every_steps=1), state=state)
    run.restore()
    for step in range(steps):
        run.step(step)
        dist.all_reduce(torch.ones(4))
        everybody: list[object] = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, step)
        assert everybody == [step] * dist.get_world_size()
        dist.barrier()
    return finished(run)


def test_uneven_shards_and_a_shared_weight_go_on_from_a_save_that_reused_its_plan(
    tmp_path: Path,
) -> None:
    """The third save of a training holds the third step's values, on every rank's rows."""
    job = sharded_and_saved_each_step
    undisturbed = on_ranks(job, tmp_path / "one", 6, world_size=2, folder=tmp_path / "a")
    on_ranks(job, tmp_path / "two", 3, world_size=2, folder=tmp_path / "b")

    resumed = on_ranks(job, tmp_path / "two", 6, world_size=2, folder=tmp_path / "b")

    assert [start for start, _ in resumed] == [3, 3]
    assert [end for _, end in resumed] == [end for _, end in undisturbed]


def test_saves_do_not_get_in_the_way_of_the_trainings_own_collectives(tmp_path: Path) -> None:
    """They talk over groups of their own: no order among them has to be kept."""
    said = on_ranks(with_collectives, tmp_path / "c", 30, world_size=2, folder=tmp_path / "b")

    assert said == ["saved", "saved"]
    assert len(found(tmp_path / "c")) == 3


def resident_bytes() -> int:
    """What this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_memory_does_not_grow_from_save_to_save(tmp_path: Path) -> None:
    """Twenty saves of 32 MB leave less behind than half of one."""
    state = {"x": torch.zeros(8 << 20)}
    size_bytes = state["x"].nbytes
    run = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=1, keep=1), state=state)
    run.restore()
    before = 0
    for step in range(25):
        state["x"].fill_(step)
        run.step(step)
        if step == 5:  # the block is there, and so is what allocators keep
            before = resident_bytes()
    run.finish()

    assert before
    assert resident_bytes() - before < size_bytes // 2
