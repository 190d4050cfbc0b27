"""
What a process does with its GPUs: all of them, whichever is the current one.

Not part of `make test`: `pytest tests/gpu` on a machine that has some.
"""

import gc
import mmap
from pathlib import Path

import pytest
import torch

from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.training.peers import Peers
from slurm_resilience.training.staging import Staging, pin
from tests.missing import missing

ELEMENTS = 1 << 22
CYCLES = 1 << 30
"""A good part of a second."""


@pytest.fixture
def gpus() -> list[torch.device]:
    """All that this process sees."""
    if not torch.cuda.is_available():
        missing("this machine has no GPU that torch can use")
    return [torch.device("cuda", number) for number in range(torch.cuda.device_count())]


@pytest.fixture
def two_gpus(gpus: list[torch.device]) -> list[torch.device]:
    """The current one and another."""
    if len(gpus) < 2:
        missing("this machine has one GPU")
    return gpus[:2]


def test_random_numbers_of_all_gpus_go_on(tmp_path: Path, gpus: list[torch.device]) -> None:
    """As if nothing had happened, on each."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"x": torch.zeros(1)})
    run.restore()
    for gpu in gpus:
        torch.rand(3, device=gpu)
    run.step(0)
    run.finish()
    expected = [torch.rand(3, device=gpu).cpu() for gpu in gpus]

    again = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"x": torch.zeros(1)})
    again.restore()
    again.close()

    for gpu, numbers in zip(gpus, expected, strict=True):
        assert torch.equal(torch.rand(3, device=gpu).cpu(), numbers)


def test_a_copy_of_what_lies_on_two_gpus_is_frozen(two_gpus: list[torch.device]) -> None:
    """Also where the other one is still at work when the copy is asked for."""
    staging = Staging(Peers(timeout_s=5))
    tensors = [torch.zeros(ELEMENTS, device=gpu) for gpu in two_gpus]
    for value in (1.0, 2.0):
        for gpu, tensor in zip(two_gpus, tensors, strict=True):
            with torch.cuda.device(gpu):
                torch.cuda._sleep(CYCLES)  # noqa: SLF001 - torch's own way to keep a GPU busy
            tensor.fill_(value)
        staging.memory.look()

        staging.filled(lambda: tensors)

        assert all(bool((view == value).all()) for view in staging.views)


def test_memory_is_unpinned_with_the_block(gpus: list[torch.device]) -> None:
    """Another Run in the same process may get the same addresses."""
    staging = Staging(Peers(timeout_s=5))
    staging.memory.look()
    block = staging.filled(lambda: [torch.zeros(ELEMENTS, device=gpus[0])])
    views = staging.views
    assert views[0].is_pinned()

    del staging
    gc.collect()

    assert not views[0].is_pinned()
    assert isinstance(block, memoryview)


def test_memory_that_cannot_be_pinned_does_not_cost_the_training(
    gpus: list[torch.device], caplog: pytest.LogCaptureFixture
) -> None:
    """CUDA keeps the error for whoever asks next, and that would be its next kernel."""
    owner = torch.zeros(1)
    with mmap.mmap(-1, ELEMENTS) as block:
        unpin = pin(block, gpus[0], owner)
        assert unpin

        assert pin(block, gpus[0], owner) is None  # it is pinned already

        assert "cannot be pinned" in caplog.text
        assert float(torch.ones(3, device=gpus[0]).sum()) == 3.0
        unpin()
