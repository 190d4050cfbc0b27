"""What the ranks of a test do. Each job is a training that a test can check from outside."""

import itertools
import os
import random
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from slurm_resilience.errors import CheckpointError
from slurm_resilience.training import Checkpoints, Run

SIZE = 200_000


class Level(nn.Module):
    """Parameters that all equal the number of the last step: half of one state shows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.full((SIZE,), -1.0))
        self.second = nn.Parameter(torch.full((SIZE,), -1.0))

    def rise(self, step: int) -> None:
        """Do a step."""
        with torch.no_grad():
            self.first.fill_(step)
            self.second.fill_(step)

    def level(self) -> float:
        """The step that all parameters agree on; nan where they do not."""
        values = torch.cat([self.first.detach(), self.second.detach()])
        return float(values[0]) if bool((values == values[0]).all()) else float("nan")


class Sampler:
    """A data source with a position and random order, different on each rank."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.position = 0

    def next(self) -> tuple[int, int]:
        """The next sample."""
        self.position += 1
        return self.position, int(torch.randint(1 << 30, (1,), generator=self.generator))

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]
        self.generator.set_state(state["generator"])


def save_for_ever(directory: Path, keep: int = 2) -> None:
    """Save each step until killed."""
    model = Level()
    checkpoints = Checkpoints(directory, every_steps=1, keep=keep)
    run = Run(checkpoints=checkpoints, state={"model": model})
    for step in itertools.count(run.restore()):
        model.rise(step)
        run.step(step)


def until_told(directory: Path, every_minutes: float | None = None) -> tuple[int, float]:
    """Train until told to stop; the step it stopped at, and the level."""
    model = Level()
    checkpoints = Checkpoints(directory, every_steps=1_000_000, every_minutes=every_minutes)
    run = Run(checkpoints=checkpoints, state={"model": model})
    for step in itertools.count(run.restore()):
        model.rise(step)
        if run.step(step):
            break
    run.finish()
    return step, model.level()


def near_the_end(directory: Path) -> None:
    """Ten steps, the time limit being near."""
    os.environ["SLURM_JOB_END_TIME"] = str(int(time.time()) + 20)
    run = Run(checkpoints=Checkpoints(directory), state={"model": Level()})
    for step in range(run.restore(), 10):
        run.step(step)
    run.finish(save=False)


def nan_on_one(directory: Path) -> None:
    """One step, with a loss that is no number on rank 1 alone."""
    run = Run(checkpoints=Checkpoints(directory), state={"model": Level()})
    run.restore()
    run.step(0, loss=float("nan") if torch.distributed.get_rank() == 1 else 0.5)
    run.finish()


def skipping(directory: Path) -> int:
    """Steps until three checkpoints are there, saved at every step that is free for it."""
    checkpoints = Checkpoints(directory, every_steps=1, keep=100, if_busy="skip")
    state = {"x": torch.zeros(10_000_000), "model": Level()}
    run = Run(checkpoints=checkpoints, state=state)
    for step in itertools.count(run.restore()):
        run.step(step)
        here = torch.tensor([len(list(directory.glob("step-*")))])
        torch.distributed.all_reduce(here)
        if here >= 6:
            break
    run.finish()
    return step


def sharded(directory: Path, steps: int) -> tuple[int, str]:
    """As `plain`, with all that can be sharded over the ranks; some get nothing of it."""
    if not torch.distributed.is_initialized():
        meeting = f"file://{directory}-meeting-{os.getpid()}"
        torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    model = small()
    fully_shard(model, mesh=init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
    return trained(directory, model, steps)


def plain(directory: Path, steps: int) -> tuple[int, str]:
    """Train in one process until so many steps are done: where it began, all parameters."""
    return trained(directory, small(), steps)


def small() -> nn.Module:
    """A model of two layers; the second has a single row."""
    return nn.Sequential(nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 1))


def trained(
    directory: Path, model: nn.Module, steps: int, *, per_node: bool = False
) -> tuple[int, str]:
    """Do the steps, all ranks with the same data, and say where *model* began and ended."""
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.fill_(0.01 * (number + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    run = Run(checkpoints=Checkpoints(directory, per_node=per_node), state=state)
    start = run.restore()
    for step in range(start, steps):
        inputs = torch.rand(4, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        run.step(step, loss=loss)
    run.finish()
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    values = {name: one.tolist() for name, one in whole.items() if torch.is_tensor(one)}
    return start, str(values)


def draw(directory: Path, start_seed: int, steps: int) -> list[object]:
    """What this rank draws after restoring: sampler, Python, numpy, torch."""
    import numpy as np  # noqa: PLC0415 - only this job uses it

    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    random.seed(start_seed + rank)
    np.random.seed(start_seed + rank)  # noqa: NPY002 - the one that is saved
    torch.manual_seed(start_seed + rank)
    sampler = Sampler(start_seed + rank)
    state: dict[str, Any] = {"model": Level(), "sampler": sampler, "best": 0.0}
    run = Run(checkpoints=Checkpoints(directory), state=state)
    for step in range(run.restore(), steps):
        random.random()
        sampler.next()
        state["best"] = step + 0.5
        run.step(step)
    run.finish()
    return [
        state["best"],
        sampler.next(),
        random.random(),
        np.random.rand(),  # noqa: NPY002 - the one that is saved
        float(torch.rand(1)),
    ]


def restore_only(directory: Path) -> str:
    """What `restore` says, the start or its error."""
    try:
        run = Run(checkpoints=Checkpoints(directory), state={"model": Level()})
        return f"start {run.restore()}"
    except CheckpointError as error:
        return str(error)


def finished(run: Run) -> str:
    """What `finish` says."""
    try:
        run.finish()
    except CheckpointError as error:
        return str(error)
    return "saved"
