"""A poisoned state: marked when it is saved, never in the way of the last good one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from slurm_resilience.checkpoint_files.keep import superfluous
from slurm_resilience.checkpoint_files.listing import Found, found
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.cli import main
from slurm_resilience.errors import CheckpointLoadError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.training.choosing import Prefer
from tests.training import jobs
from tests.training.jobs import Level
from tests.training.ranks import on_ranks

NAN, INFINITY = float("nan"), float("inf")


def entry(step: int, poison: str = "") -> Found:
    """A whole checkpoint."""
    manifest = Manifest(
        format=1, step=step, world_size=1, saved_at=0.0, took_s=0.0, job="", files={},
        poison=poison,
    )  # fmt: skip
    return Found(Path(f"step-{step}"), manifest)


@pytest.mark.parametrize(
    ("poisoned", "go"),
    [((), [1, 2, 3]), ((5,), [1, 2, 3]), ((4, 5), [1, 2]), ((3, 4, 5), [1, 3]),
     ((1, 2, 3, 4, 5), [1, 2, 3])],
    ids=["none", "the newest", "all that would stay", "one more", "all"],
)  # fmt: skip
def test_the_last_good_checkpoint_stays_when_newer_ones_are_poisoned(
    poisoned: tuple[int, ...], go: list[int]
) -> None:
    """Of five, two are kept; the newest without poison stays beside them where it has to."""
    entries = [entry(step, "a NaN" if step in poisoned else "") for step in range(1, 6)]

    going = superfluous(entries, keep=2, unsound=())

    assert [path.name for path in going] == [f"step-{step}" for step in go]


def poisons(directory: Path) -> dict[int, str]:
    """What each checkpoint says of its state."""
    entries = [entry.manifest for entry in found(directory) if entry.manifest]
    return {manifest.step: manifest.poison for manifest in entries}


def parts() -> dict[str, Any]:
    """A state of many parts, the optimizer's among them."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    model.register_buffer("mask", torch.full((4, 4), -INFINITY).triu(1))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.rand(4, 4)).sum().backward()
    optimizer.step()
    return {
        "model": model,
        "optimizer": optimizer,
        "best": INFINITY,
        "x": torch.full((2,), NAN),
    }


def first_moment(state: dict[str, Any]) -> torch.Tensor:
    """Of the first parameter."""
    moment: torch.Tensor = next(iter(state["optimizer"].state.values()))["exp_avg"]
    return moment


POISONS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a parameter": (
        lambda state: state["model"][0].weight.data[1, 2].fill_(NAN),
        "model/0.weight holds NaN or infinity",
    ),
    "a half": (
        lambda state: state["model"].to(torch.bfloat16)[1].bias.data[3].fill_(-INFINITY),
        "model/1.bias holds NaN or infinity",
    ),
    "a moment": (
        lambda state: first_moment(state)[0, 0].fill_(INFINITY),
        "optimizer/state/0/exp_avg holds NaN or infinity",
    ),
    "nothing": (lambda _: None, ""),
}


@pytest.mark.parametrize(("poison", "says"), POISONS.values(), ids=POISONS)
def test_a_poisoned_state_is_marked_where_it_is_saved(
    tmp_path: Path,
    poison: Callable[[dict[str, Any]], Any],
    says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Parameters and optimizer are looked at; a mask and the user's own numbers may be infinite."""
    state = parts()
    poison(state)
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state=state)
    run.restore()
    run.step(0, loss=0.5)
    run.finish()

    assert poisons(tmp_path / "c") == {0: says}
    assert (f"step 0 is saved, but {says}" in caplog.text) == bool(says)


@pytest.mark.parametrize(
    ("dtype", "number", "is_poisoned"),
    [
        (torch.complex64, complex(0, NAN), True), (torch.complex64, 1j, False),
        (torch.float8_e4m3fn, NAN, True), (torch.float8_e5m2, INFINITY, True),
        (torch.float8_e5m2, 1.0, False), (torch.int32, 1, False),
    ],
    ids=str,
)  # fmt: skip
def test_parameters_of_any_kind_are_looked_at(
    tmp_path: Path, dtype: torch.dtype, number: complex, *, is_poisoned: bool
) -> None:
    """Complex ones, those of eight bits; whole numbers are always finite."""
    model = nn.Module()
    model.p = nn.Parameter(torch.zeros(5).to(dtype), requires_grad=False)
    model.p.data[3] = number  # type: ignore[assignment]
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"model": model})
    run.step(run.restore(), loss=torch.tensor(0.5).to(torch.float8_e5m2))
    run.finish()

    assert poisons(tmp_path / "c") == {
        0: "model/p holds NaN or infinity" if is_poisoned else ""
    }


@pytest.mark.parametrize("has_sound", [True, False], ids=["sound before", "none"])
def test_a_way_back_is_named_where_there_is_one(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    has_sound: bool,  # noqa: FBT001 - a row of the table
) -> None:
    """A poisoned first save leaves nothing to go back to."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=1), state={"n": 1})
    run.restore()
    if has_sound:
        run.step(0, loss=1.0)
    run.step(1, loss=NAN)
    run.finish()

    assert ("goes back to it" in caplog.text) == has_sound
    assert ("no checkpoint without is there" in caplog.text) != has_sound


@pytest.mark.parametrize(
    ("loss", "is_poison"),
    [(0.5, False), (None, False), (NAN, True), (torch.tensor(-INFINITY), True),
     (torch.tensor([1.0, NAN]), True), (torch.tensor(2.0, requires_grad=True), False)],
    ids=["number", "not told", "NaN", "tensor", "of each sample", "with gradient"],
)  # fmt: skip
def test_a_loss_that_is_no_number_marks_the_checkpoint(
    tmp_path: Path, loss: float | torch.Tensor | None, *, is_poison: bool
) -> None:
    """The parameters may still be whole, but what made the loss is in the state."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=2), state={"model": Level()})
    run.restore()
    run.step(0, loss=1.0)
    run.step(1, loss=loss)
    run.finish()

    assert poisons(tmp_path / "c") == {1: "the loss is NaN or infinite" if is_poison else ""}


def poisoned_from(directory: Path, first: int, last: int) -> None:
    """Save each step up to *last*, from *first* on with a NaN in it; two are kept."""
    model = Level()
    checkpoints = Checkpoints(directory, every_steps=1, keep=2)
    run = Run(checkpoints=checkpoints, state={"model": model})
    for step in range(run.restore(), last + 1):
        model.rise(step)
        if step >= first:
            with torch.no_grad():
                model.first[7] = NAN
        run.step(step)
    run.finish()


def restored(directory: Path, prefer: Prefer = "newest") -> tuple[int, float]:
    """The first step to do, and the level of the state."""
    model = Level()
    run = Run(checkpoints=Checkpoints(directory), state={"model": model})
    try:
        return run.restore(prefer=prefer), model.level()
    finally:
        run.close()


def test_the_last_good_checkpoint_is_not_rotated_out(tmp_path: Path) -> None:
    """However many poisoned ones follow."""
    poisoned_from(tmp_path / "c", first=3, last=9)

    assert [step for step, why in poisons(tmp_path / "c").items() if not why] == [2]
    assert sorted(poisons(tmp_path / "c")) == [2, 8, 9]


def test_restore_goes_back_behind_the_poison_when_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The poisoned ones are put aside, so that the training that follows is the newest again."""
    directory = tmp_path / "c"
    poisoned_from(directory, first=3, last=9)

    newest = restored(directory)[0]
    warned = caplog.text
    start, level = restored(directory, prefer="sound")

    assert newest == 10
    assert 'model/first holds NaN or infinity; restore(prefer="sound") goes back' in warned
    assert (start, level) == (3, 2.0)
    assert sorted(path.name for path in (directory / "quarantine").glob("*-1")) == [
        "step-000000008-1", "step-000000009-1",
    ]  # fmt: skip
    poisoned_from(directory, first=100, last=4)
    assert restored(directory) == (5, 4.0)


def test_nothing_without_poison_is_for_a_person_to_decide(tmp_path: Path) -> None:
    """One line says what every checkpoint holds; none is put aside."""
    poisoned_from(tmp_path / "c", first=0, last=3)

    with pytest.raises(CheckpointLoadError, match=r"none of the 2 .* holds NaN or infinity"):
        restored(tmp_path / "c", prefer="sound")

    assert sorted(poisons(tmp_path / "c")) == [2, 3]


def test_poison_on_one_rank_marks_the_checkpoint_of_all(tmp_path: Path) -> None:
    """A loss differs between ranks."""
    on_ranks(jobs.nan_on_one, tmp_path / "c", world_size=2, folder=tmp_path / "b")

    assert poisons(tmp_path / "c") == {0: "the loss is NaN or infinite"}


def test_a_poisoned_checkpoint_is_listed_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is whole, and so no damage; the line says what is wrong with the state."""
    poisoned_from(tmp_path / "c", first=0, last=0)
    capsys.readouterr()

    status = main(["checkpoint", "list", str(tmp_path / "c")])

    assert status == 0
    assert (
        capsys.readouterr()
        .out.splitlines()[1]
        .endswith("poisoned: model/first holds NaN or infinity")
    )
