"""A state that has other dtypes, or another shape, than when it was saved."""

import logging
from pathlib import Path

import pytest
import torch
from torch import nn

from slurm_resilience.errors import CheckpointLoadError
from slurm_resilience.training import Checkpoints, Run


class Table(nn.Module):
    """One buffer."""

    def __init__(self, content: torch.Tensor) -> None:
        super().__init__()
        self.content: torch.Tensor
        self.register_buffer("content", content)


def save(directory: Path, state: dict[str, object]) -> None:
    """One checkpoint."""
    run = Run(checkpoints=Checkpoints(directory), state=state)
    run.step(run.restore())
    run.finish()


def restored(directory: Path, state: dict[str, object]) -> None:
    """Fill *state*."""
    run = Run(checkpoints=Checkpoints(directory), state=state)
    try:
        run.restore()
    finally:
        run.close()


@pytest.mark.parametrize("in_module", [True, False])
@pytest.mark.parametrize(
    ("saved", "wanted"),
    [
        (torch.tensor([3.7]), torch.tensor([0])),
        (torch.tensor([300]), torch.tensor([0], dtype=torch.uint8)),
        (torch.tensor([0.5]), torch.tensor([False])),
        (torch.tensor([1 << 40]), torch.tensor([0.0])),
        (torch.tensor([1j]), torch.tensor([0.0])),
    ],
    ids=lambda tensor: str(tensor.dtype),
)
def test_what_would_be_lost_is_refused(
    tmp_path: Path, saved: torch.Tensor, wanted: torch.Tensor, *, in_module: bool
) -> None:
    """By name, and the state is as it was."""
    save(tmp_path / "c", {"x": Table(saved) if in_module else saved})
    before = wanted.clone()

    with pytest.raises(CheckpointLoadError, match=f"was saved as {saved.dtype}, and is "):
        restored(tmp_path / "c", {"x": Table(wanted) if in_module else wanted})

    assert torch.equal(wanted, before)


@pytest.mark.parametrize("in_module", [True, False])
@pytest.mark.parametrize(
    ("saved", "wanted"),
    [
        (torch.tensor([1 / 3]), torch.tensor([0.0], dtype=torch.bfloat16)),
        (torch.tensor([0.5], dtype=torch.float16), torch.tensor([0.0])),
        (torch.tensor([7], dtype=torch.int32), torch.tensor([0])),
    ],
    ids=lambda tensor: str(tensor.dtype),
)
def test_what_is_rounded_or_widened_is_said(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    saved: torch.Tensor,
    wanted: torch.Tensor,
    *,
    in_module: bool,
) -> None:
    """In one line."""
    save(tmp_path / "c", {"x": Table(saved) if in_module else saved})

    with caplog.at_level(logging.WARNING):
        restored(tmp_path / "c", {"x": Table(wanted) if in_module else wanted})

    assert torch.equal(wanted, saved.to(wanted.dtype))
    assert f"saved as {saved.dtype}, and converted to {wanted.dtype}" in caplog.text


@pytest.mark.parametrize("in_module", [True, False])
@pytest.mark.parametrize(
    ("number", "saved", "wanted"),
    [
        (1e6, torch.float32, torch.float16),
        (3.4e38, torch.float32, torch.bfloat16),
        (1e300, torch.float64, torch.float32),
        (1e300j, torch.complex128, torch.complex64),
    ],
)
def test_what_would_become_infinite_is_refused(
    tmp_path: Path,
    number: complex,
    saved: torch.dtype,
    wanted: torch.dtype,
    *,
    in_module: bool,
) -> None:
    """What was infinite already stays so."""
    for content, is_refused in ((number, True), (float("inf"), False)):
        folder, old = tmp_path / str(is_refused), torch.full((3,), content, dtype=saved)
        new = torch.zeros(3, dtype=wanted)
        save(folder, {"x": Table(old) if in_module else old})
        state: dict[str, object] = {"x": Table(new) if in_module else new}
        if is_refused:
            with pytest.raises(CheckpointLoadError, match=f"too large for this run's {wanted}"):
                restored(folder, state)
        else:
            restored(folder, state)


def test_a_tensor_is_not_repeated_to_fit(tmp_path: Path) -> None:
    """As torch's copy would."""
    save(tmp_path / "c", {"x": torch.ones(1)})

    with pytest.raises(CheckpointLoadError, match=r"it has the shape \[1\], this run's \[5\]"):
        restored(tmp_path / "c", {"x": torch.zeros(5)})


def test_a_default_device_does_not_move_what_is_the_hosts(tmp_path: Path) -> None:
    """`torch.set_default_device`, as training scripts call it."""
    model = nn.Linear(3, 3)
    save(tmp_path / "c", {"model": model, "adam": torch.optim.Adam(model.parameters())})
    again = nn.Linear(3, 3)
    state = {"model": again, "adam": torch.optim.Adam(again.parameters()), "seen": 3}
    with torch.device("meta"), pytest.raises(CheckpointLoadError, match="holds no 'seen'"):
        restored(tmp_path / "c", state)
    del state["seen"]

    with torch.device("meta"):
        restored(tmp_path / "c", state)

    assert torch.equal(again.weight, model.weight)
