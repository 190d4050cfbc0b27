"""Which GPUs' generators go where; on the machine they are tried by tests/gpu."""

import pytest
import torch

from slurm_resilience.training import rng


def generators(*states: int) -> torch.Tensor:
    """As they are saved, one a row."""
    return torch.tensor([[number] * 16 for number in states], dtype=torch.uint8)


@pytest.mark.parametrize(
    ("saved", "current", "count", "restored"),
    [
        (generators(7)[0], 2, 4, {2: 7}),
        (generators(7, 8, 9), 0, 3, {0: 7, 1: 8, 2: 9}),
        (generators(7, 8, 9), 2, 3, {2: 7, 0: 8, 1: 9}),
        (generators(7, 8, 9), 0, 1, {0: 7}),
        (generators(7), 3, 4, {3: 7}),
    ],
    ids=["of earlier", "all", "another is current", "fewer are seen", "more are seen"],
)
def test_the_generator_that_a_rank_trains_on_comes_back_to_where_it_trains(
    saved: torch.Tensor, current: int, count: int, restored: dict[int, int]
) -> None:
    """Then the others, as far as there are as many; checkpoints of earlier hold that one alone."""
    found = rng.by_device(saved, current, count)

    assert {device: int(state[0]) for device, state in found.items()} == restored
    assert all(state.shape == (16,) for state in found.values())


def test_devices_are_saved_in_the_order_in_which_they_are_restored() -> None:
    """The current one first."""
    devices = rng.cuda_devices(2, 4)

    assert devices == [2, 0, 1, 3]
    assert list(rng.by_device(generators(1, 2, 3, 4), 2, 4)) == devices
