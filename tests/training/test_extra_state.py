"""What a module keeps beside its tensors: `get_extra_state`, as FP8 layers use it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from slurm_resilience.errors import CheckpointLoadError
from slurm_resilience.training import Checkpoints, Run, load
from tests.training.ranks import on_ranks


class Scaled(nn.Module):
    """A layer with a history that grows, told as one tensor of bytes, as a dict or not at all."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.layer = nn.Linear(2, 2)
        self.history: list[int] = []

    def get_extra_state(self) -> Any:  # noqa: ANN401 - torch's own
        if self.kind == "tensor":
            return torch.tensor(self.history, dtype=torch.uint8)
        return {"history": torch.tensor(self.history, dtype=torch.uint8), "scale": 0.5}

    def set_extra_state(self, state: Any) -> None:  # noqa: ANN401 - torch's own
        history = state if self.kind == "tensor" else state["history"]
        self.history = history.tolist()


def saved(directory: Path, kind: str, history: list[int]) -> None:
    """Three saves, the history growing from one to the next."""
    scaled = Scaled(kind)
    model = nn.Sequential(nn.Linear(2, 2), scaled)
    run = Run(checkpoints=Checkpoints(directory, every_steps=1), state={"model": model})
    run.restore()
    for step in range(3):
        scaled.history = history[: len(history) - 2 + step]
        run.step(step)
    run.finish()


def restored(directory: Path, kind: str) -> list[int]:
    """What a fresh model has for a history once it is restored."""
    scaled = Scaled(kind)
    model = nn.Sequential(nn.Linear(2, 2), scaled)
    run = Run(checkpoints=Checkpoints(directory), state={"model": model})
    run.restore()
    run.close()
    return scaled.history


def own_history(directory: Path, kind: str) -> list[int]:
    """What this rank has back of a history that is as long as its number, and three."""
    rank = torch.distributed.get_rank()
    saved(directory, kind, [rank + 1] * (3 + rank))
    return restored(directory, kind)


@pytest.mark.parametrize("kind", ["tensor", "dict"])
def test_extra_state_comes_back_whatever_its_size(tmp_path: Path, kind: str) -> None:
    """A fresh layer has none yet; what was saved is handed to `set_extra_state` as it was."""
    saved(tmp_path / "c", kind, [1, 2, 3, 4])

    assert restored(tmp_path / "c", kind) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["tensor", "dict"])
def test_each_rank_gets_its_own_extra_state_back(tmp_path: Path, kind: str) -> None:
    """Its size may differ between ranks, and its content is nobody else's."""
    said = on_ranks(own_history, tmp_path / "c", kind, world_size=2, folder=tmp_path / "b")

    assert said == [[1, 1, 1], [2, 2, 2, 2]]
    # Another number of ranks gets that of the first.
    assert restored(tmp_path / "c", kind) == [1, 1, 1]


def test_extra_state_is_part_of_what_is_loaded_elsewhere(tmp_path: Path) -> None:
    """A part loaded for evaluation fits the module that it came from."""
    saved(tmp_path / "c", "tensor", [5, 6, 7])
    scaled = Scaled("tensor")
    model = nn.Sequential(nn.Linear(2, 2), scaled)

    model.load_state_dict(load(tmp_path / "c" / "step-000000002", "model"))

    assert scaled.history == [5, 6, 7]


def test_extra_state_that_was_not_saved_is_missed(tmp_path: Path) -> None:
    """A layer that has begun to keep some is not left without it in silence."""
    plain = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with Run(checkpoints=Checkpoints(tmp_path / "c"), state={"model": plain[:1]}) as run:
        run.step(run.restore())
    scaled = Scaled("tensor")
    scaled.layer = nn.Identity()  # type: ignore[assignment]
    model = nn.Sequential(plain[0], scaled)

    again = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"model": model})
    with pytest.raises(CheckpointLoadError, match=r"Missing key.*1\._extra_state"):
        again.restore()

    again.close()
