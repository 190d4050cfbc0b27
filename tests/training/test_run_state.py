"""What a state may hold: the rest is refused before the first step."""

import enum
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from slurm_resilience.errors import CheckpointLoadError, UsageError
from slurm_resilience.training import Checkpoints, Run


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "state x is a builtins.object"),
        ({"deep": [lambda: 0]}, "state x@0/deep/0"),
        (Colour.RED, "Colour"),
        (torch.rand(3).to_sparse(), "sparse"),
        ({1: torch.rand(1), "1": torch.rand(1)}, "twice"),
    ],
    ids=["object", "function", "enum", "sparse", "one name"],
)
def test_what_cannot_be_saved_is_refused_before_the_first_step(
    tmp_path: Path, value: object, says: str
) -> None:
    """Not at the first save, hours later, and not at the first restore, days later."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"x": value})

    with pytest.raises(UsageError) as refused:
        run.restore()

    run.close()
    assert says.replace("x is", "x@0 is") in str(refused.value)


class Picky:
    """A user's own, which takes nothing but itself."""

    place = 0

    def load_state_dict(self, state: "Picky") -> None:
        self.place = state.place


def test_a_state_that_does_not_fit_is_refused_in_one_line(tmp_path: Path) -> None:
    """Another shape, another part, another layer: named, and nothing is skipped silently."""
    saved = {"model": nn.Linear(2, 2), "sampler": {"place": 7}}
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state=saved)
    run.restore()
    run.step(0)
    run.finish()
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "shape": ({"model": nn.Linear(2, 3)}, "[2, 2]"),
        "layer": ({"model": nn.Sequential(nn.Linear(2, 2))}, "model/0.weight"),
        "part": ({"model": nn.Linear(2, 2), "ema": 1}, "'ema'"),
        "sampler": ({"sampler": Picky()}, "'dict' object has no attribute 'place'"),
        "kind": ({"model": torch.optim.SGD(nn.Linear(2, 2).parameters())}, "does not fit"),
    }

    for state, says in wrong.values():
        again = Run(checkpoints=Checkpoints(tmp_path / "c"), state=state)
        with pytest.raises(CheckpointLoadError) as refused:
            again.restore()
        again.close()
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("saved", "now", "says"),
    [
        (torch.optim.Adam, torch.optim.SGD, "another optimizer than this run's SGD"),
        (torch.optim.SGD, torch.optim.AdamW, "another optimizer than this run's AdamW"),
        (torch.optim.Adam, torch.optim.AdamW, ""),
        (torch.optim.SGD, torch.optim.SGD, ""),
    ],
    ids=["Adam into SGD", "SGD into AdamW", "of one kind", "the same"],
)
@pytest.mark.parametrize("has_scheduler", [True, False], ids=["scheduler", "none"])
def test_another_optimizer_is_refused(
    tmp_path: Path,
    saved: type[torch.optim.Optimizer],
    now: type[torch.optim.Optimizer],
    says: str,
    has_scheduler: bool,  # noqa: FBT001 - a row of the table
) -> None:
    """Torch takes the learning rate of the one for the other's, and says nothing."""
    first = saved(nn.Linear(2, 2).parameters(), lr=0.1)  # type: ignore[call-arg]
    if has_scheduler:
        torch.optim.lr_scheduler.StepLR(first, 1)
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"o": first})
    run.restore()
    run.step(0)
    run.finish()
    second = now(nn.Linear(2, 2).parameters(), lr=0.1)  # type: ignore[call-arg]

    again = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"o": second})
    if says:
        with pytest.raises(CheckpointLoadError, match=says):
            again.restore()
    else:
        assert again.restore() == 1

    again.close()


class Mask(nn.Module):
    """Its buffer is one row, seen many times."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("row", torch.zeros(1, 3).expand(4, 3))


@pytest.mark.parametrize(
    ("part", "name"),
    [(Mask(), "x/row"), (torch.zeros(1).expand(5), "x@0"), (nn.Linear, "x")],
    ids=["buffer", "tensor", "class"],
)
def test_what_could_not_be_restored_is_refused_at_the_start(
    tmp_path: Path, part: object, name: str
) -> None:
    """It would be saved for days, and fail when it is needed."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"x": part})

    with pytest.raises(UsageError, match=f"state {name}"):
        run.restore()

    run.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_wrapped_model_restores_into_a_bare_one(tmp_path: Path) -> None:
    """A checkpoint does not depend on torch.compile."""
    model = nn.Linear(2, 2)
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"model": torch.compile(model)})
    run.restore()
    run.step(0)
    run.finish()
    bare = nn.Linear(2, 2)

    again = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"model": bare})
    again.restore()
    again.close()

    assert torch.equal(bare.weight, model.weight)
