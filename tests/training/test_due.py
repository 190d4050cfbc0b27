"""When a save is due: steps or clock, whichever is first."""

import pytest

from slurm_resilience.training.due import Due


@pytest.mark.parametrize(
    ("step", "last", "due"),
    [(498, -1, False), (499, -1, True), (998, 499, False), (999, 499, True), (1200, 700, True)],
)
def test_steps_count_from_the_last_save(step: int, last: int, *, due: bool) -> None:
    """The first save is after 500 steps; one by the clock in between moves the next."""
    assert Due(500, 1800.0).by_steps(step, last) is due


def test_the_clock_counts_from_the_last_save() -> None:
    """Half an hour after the last save began, not before."""
    assert not Due(500, 1800.0).by_clock(now=2799.0, since=1000.0)
    assert Due(500, 1800.0).by_clock(now=2800.0, since=1000.0)


def test_either_may_be_left_out() -> None:
    """None means: not by that."""
    assert not Due(None, 1.0).by_steps(10**9, 0)
    assert not Due(1, None).by_clock(1e9, 0.0)
