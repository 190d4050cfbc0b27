"""Every kind of state that torch has: frozen at the call, restored with its type, and going on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from slurm_resilience.errors import CheckpointLoadError
from slurm_resilience.training import Checkpoints, Run
from tests.training.jobs import Sampler

Parts = dict[str, Any]
Step = Callable[[Parts, int], object]


def attempts(directory: Path, make: Callable[[], Parts], do: Step, *until: int) -> list[object]:
    """What *do* returned, step by step, over as many attempts as there are steps to stop after."""
    done = []
    for last in until:
        state = make()
        run = Run(checkpoints=Checkpoints(directory), state=state)
        for step in range(run.restore(), last):
            done.append(do(state, step))
            run.step(step)
        run.finish()
    return done


def goes_on(folder: Path, make: Callable[[], Parts], do: Step) -> bool:
    """Whether eight steps in three attempts are the eight of one."""
    undisturbed = attempts(folder / "one", make, do, 8)
    return attempts(folder / "many", make, do, 2, 3, 8) == undisturbed


SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "multiplicative": lambda o: lr_scheduler.MultiplicativeLR(o, lambda _: 0.9),
    "linear": lr_scheduler.LinearLR,
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "warm restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=9),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=2),
    "sequence": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.9)], [3]
    ),
    "chain": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1, 4), lr_scheduler.ExponentialLR(o, 0.9)], optimizer=o
    ),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", SCHEDULERS)
def test_a_learning_rate_goes_on_at_its_place(tmp_path: Path, kind: str) -> None:
    """No step of a schedule is done twice, and none is left out."""

    def make() -> Parts:
        optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1, momentum=0.9)
        return {"optimizer": optimizer, "scheduler": SCHEDULERS[kind](optimizer)}

    def do(state: Parts, _: int) -> float:
        state["optimizer"].step()
        if kind == "plateau":
            state["scheduler"].step(1.0)
        else:
            state["scheduler"].step()
        return float(state["optimizer"].param_groups[0]["lr"])

    assert goes_on(tmp_path, make, do)


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "SGD without a state": lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    "Adam": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, amsgrad=True),
    "AdamW, fused": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, fused=True),
    "AdamW, a tensor for a rate": lambda m: torch.optim.AdamW(
        m.parameters(), lr=torch.tensor(0.01), foreach=False
    ),
    "AdamW, with names": lambda m: torch.optim.AdamW(m.named_parameters(), lr=0.01),
    "NAdam": lambda m: torch.optim.NAdam(m.parameters(), lr=0.01),
    "RAdam": lambda m: torch.optim.RAdam(m.parameters(), lr=0.01),
    "Adagrad": lambda m: torch.optim.Adagrad(m.parameters(), lr=0.01),
    "Adafactor": lambda m: torch.optim.Adafactor(m.parameters(), lr=0.01),
    "RMSprop": lambda m: torch.optim.RMSprop(m.parameters(), lr=0.01, momentum=0.5),
    "LBFGS": lambda m: torch.optim.LBFGS(m.parameters(), lr=0.1),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_goes_on_with_all_it_has_gathered(tmp_path: Path, kind: str) -> None:
    """A fresh one has no state yet: what was saved is not dropped for that, nor cast."""

    def make() -> Parts:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        return {"model": model, "optimizer": OPTIMIZERS[kind](model)}

    def do(state: Parts, step: int) -> list[float]:
        inputs = torch.rand(3, 4, generator=torch.Generator().manual_seed(step))

        def loss() -> torch.Tensor:
            state["optimizer"].zero_grad()
            value: torch.Tensor = state["model"](inputs).square().mean()
            value.backward()
            return value

        state["optimizer"].step(loss)
        return [float(p.detach().double().sum()) for p in state["model"].parameters()]

    assert goes_on(tmp_path, make, do)


class Tied(nn.Module):
    """Its two layers have one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight


def test_a_shared_parameter_stays_one(tmp_path: Path) -> None:
    """It has one moment, not two, and goes on with it."""

    def make() -> Parts:
        torch.manual_seed(0)
        model = Tied()
        return {
            "model": model,
            "optimizer": torch.optim.AdamW(model.parameters(), lr=0.1),
        }

    def do(state: Parts, _: int) -> tuple[bool, float]:
        model = state["model"]
        state["optimizer"].zero_grad()
        model.head(model.embedding(torch.arange(5))).square().mean().backward()
        state["optimizer"].step()
        return model.head.weight is model.embedding.weight, float(
            model.head.weight.detach().sum()
        )

    assert goes_on(tmp_path, make, do)


DTYPES = [
    "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


def test_tensors_of_every_type_come_back_bit_for_bit(tmp_path: Path) -> None:
    """As they lie in memory, also where torch can do no sums with them."""
    bits = (torch.arange(64) % 2).to(torch.uint8)  # true and false, for bool takes nothing else
    state = {name: bits.view(getattr(torch, name)).clone() for name in DTYPES}
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state=state)
    run.step(run.restore())
    run.finish()
    fresh = {name: torch.zeros_like(tensor) for name, tensor in state.items()}

    again = Run(checkpoints=Checkpoints(tmp_path / "c"), state=fresh)
    again.restore()
    again.close()

    back = {name: tensor.view(torch.uint8).tolist() for name, tensor in fresh.items()}
    assert back == dict.fromkeys(DTYPES, bits.tolist())


def test_views_come_back_as_what_they_showed(tmp_path: Path) -> None:
    """A column, every second row, a conjugate: their elements, not the memory behind them."""
    table = torch.arange(12.0).view(3, 4)
    whole = torch.randn(4, dtype=torch.complex64)
    views = [table.t(), table[:, 1], table[::2], whole.conj(), whole.imag, table[1:1]]
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"views": views})
    run.step(run.restore())
    run.finish()
    fresh: dict[str, Any] = {"views": []}

    again = Run(checkpoints=Checkpoints(tmp_path / "c"), state=fresh)
    again.restore()
    again.close()

    assert all(torch.equal(a, b) for a, b in zip(views, fresh["views"], strict=True))


def counters() -> Parts:
    """Parts of many kinds, each of which can show a number."""
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=1.0)
    model.weight.grad = torch.ones(1, 1)
    optimizer.step()
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": lr_scheduler.LambdaLR(optimizer, lambda _: 1.0),
        "sampler": Sampler(1),
        "tensor": torch.zeros(1),
        "array": np.zeros(1),
        "list": [0, {"tensor": torch.zeros(1), "array": np.zeros(1)}],
        "number": 0,
    }


def set_to(state: Parts, value: int) -> None:
    """Change every part where it lies."""
    with torch.no_grad():
        state["model"].weight.fill_(value)
    moment(state).fill_(value)
    state["scheduler"].last_epoch = state["sampler"].position = value
    state["tensor"].fill_(value)
    state["array"][:] = value
    state["list"][0] = value
    state["list"][1]["tensor"].fill_(value)
    state["list"][1]["array"][:] = value
    state["number"] = value


def moment(state: Parts) -> torch.Tensor:
    """The optimizer's, of its only parameter."""
    found: torch.Tensor = state["optimizer"].state[state["model"].weight]["momentum_buffer"]
    return found


def shown(state: Parts) -> set[float]:
    """The numbers that the parts show."""
    first, rest = state["list"]
    return {
        float(state["model"].weight.detach()), float(moment(state)), state["scheduler"].last_epoch,
        state["sampler"].position, float(state["tensor"]), float(state["array"][0]),
        first, float(rest["tensor"]), float(rest["array"][0]), state["number"],
    }  # fmt: skip


def test_no_part_of_a_save_is_from_after_the_call(tmp_path: Path) -> None:
    """Whatever is changed in place while it is being written, host memory above all."""
    state = counters()
    run = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=1, keep=9), state=state)
    run.restore()
    for step in range(4):
        set_to(state, step + 10)
        run.step(step)
        set_to(state, -1)
    run.finish()
    fresh = counters()

    again = Run(checkpoints=Checkpoints(tmp_path / "c"), state=fresh)
    again.restore()
    again.close()

    assert shown(fresh) == {13}


def test_what_is_saved_after_a_restore_is_what_trains(tmp_path: Path) -> None:
    """Stopped twice, the second attempt has saved its own values and not those that it was given."""
    for attempt in range(3):
        state = counters()
        run = Run(checkpoints=Checkpoints(tmp_path / "c"), state=state)
        start = run.restore()
        if attempt:
            assert shown(state) == {attempt}
        set_to(run.state, attempt + 1)  # type: ignore[arg-type]
        run.step(start)
        run.finish()


@pytest.mark.parametrize(
    ("layers", "groups", "says"),
    [(1, 2, "Unexpected key"), (2, 1, "does not fit"), (3, 2, "holds no 'model/2")],
    ids=["a layer less", "a group less", "a layer more"],
)
def test_nothing_saved_is_left_out_in_silence(
    tmp_path: Path, layers: int, groups: int, says: str
) -> None:
    """A checkpoint that holds more than the model, or less, is refused by its name."""

    def make(layers: int, groups: int) -> Parts:
        parts = [nn.Linear(2, 2) for _ in range(layers)]
        every = [{"params": list(one.parameters())} for one in parts[:groups]]
        model = nn.Sequential(*parts)
        return {"model": model, "optimizer": torch.optim.AdamW(every)}

    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state=make(2, 2))
    run.step(run.restore())
    run.finish()

    again = Run(checkpoints=Checkpoints(tmp_path / "c"), state=make(layers, groups))
    with pytest.raises(CheckpointLoadError) as refused:
        again.restore()

    again.close()
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
