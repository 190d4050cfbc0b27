"""A training in one process: what it saves, what it gets back, what it is told."""

import enum
import os
import random
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import nn

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.errors import (
    CheckpointError,
    CheckpointLoadError,
    ResilienceError,
    UsageError,
)
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.training.writer import read_back
from tests.training.jobs import Level, Sampler


def steps_saved(directory: Path) -> list[int]:
    """Steps of all checkpoints there, the oldest first."""
    return sorted(entry.manifest.step for entry in found(directory) if entry.manifest)


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


@contextmanager
def limited(limit: int, value: int) -> Iterator[None]:
    """This process with a resource limit, for the length of the block."""
    soft, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(limit, (soft, hard))


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


@pytest.mark.parametrize(
    "wrong",
    [{"keep": 0}, {"keep": None}, {"keep_copies": None}, {"copy_every_minutes": None},
     {"every_steps": 0}, {"every_steps": 1.5}, {"every_minutes": 0.0},
     {"every_minutes": float("nan")}, {"every_steps": None, "every_minutes": None},
     {"copies": "s3:/bucket"}, {"copies": "s3//bucket"}, {"copies": "/mnt/copies"},
     {"copies": "s3:///path"}, {"copies": "s4://bucket/x"}, {"copies": ""}, {"copies": Path("/x")}],
)  # fmt: skip
def test_nonsense_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """Settings that would save nothing, or keep nothing, never start a training."""
    with pytest.raises(UsageError):
        Checkpoints(tmp_path, **wrong)


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
