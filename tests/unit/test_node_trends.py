"""Counters over time: growth, rates and lasting states out of the readings of one boot."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.node.facts import GpuFacts, LinkCounters, NodeFacts, Trend
from slurm_resilience.node.trending import MOST_CHANGES, WINDOW_S, follow


def seen(*values: float, every_s: float = 300.0) -> Trend:
    """The trend of one GPU's corrected ECC errors, read *every_s* seconds."""
    trends: tuple[Trend, ...] = ()
    for place, value in enumerate(values):
        gpu = GpuFacts(0, ecc_corrected=int(value))
        trends = follow(trends, NodeFacts("n1", gpus=(gpu,)), 100.0 + place * every_s)
    (only,) = trends
    return only


def test_a_counter_that_stands_still_costs_one_entry() -> None:
    """Most counters of a healthy node never move."""
    trend = seen(*[7] * 200)

    assert trend.changes == ((100.0, 7.0),)
    assert trend.added(WINDOW_S) == 0
    assert trend.unchanged_s == 199 * 300


def test_what_was_there_at_the_first_reading_is_no_growth() -> None:
    """An old flap, or a repaired card's lifetime count, never counts again."""
    assert seen(50_000, 50_000).added(WINDOW_S) == 0


def test_a_counter_that_falls_was_started_anew() -> None:
    """A GPU reset sets the volatile counters back; what they show since is growth."""
    assert seen(100, 120, 5, 9).added(WINDOW_S) == 20 + 5 + 4


def test_growth_counts_from_where_one_asks() -> None:
    """What happened yesterday is not today's rate."""
    trend = seen(0, 1000, 1000, 1003)

    assert trend.added(600) == 3
    assert trend.per_second(300) == pytest.approx(3 / 300)
    assert trend.added(WINDOW_S) == 1003


def test_one_reading_has_no_rate() -> None:
    """A rate needs two; the first health check of a boot knows none."""
    assert seen(17).per_second(600) is None


def test_readings_close_together_make_no_rate() -> None:
    """Six errors between two looks a second apart are six in a minute, not six a second."""
    trend = Trend("mlx5_0:1", "symbol_error", ((100.0, 0.0), (101.0, 6.0)), 101.0)

    assert trend.per_second(600) == pytest.approx(6 / 60)


def test_a_state_lasts_only_while_each_reading_shows_it() -> None:
    """One reading without the bit begins anew; other bits do not count."""
    hardware = 0x48
    assert seen(0x8, 0x8, 0x40).lasted_s(hardware) == 600
    assert seen(0x8, 0x1, 0x8).lasted_s(hardware) == 0
    assert seen(0x8, 0x8, 0x1).lasted_s(hardware) == 0
    assert seen(0x4, 0x4, 0x4).lasted_s(hardware) == 0


def test_what_is_not_read_once_keeps_its_past() -> None:
    """A link whose counter could not be read this time has not lost its history."""
    read = NodeFacts("n1", link_counters=(LinkCounters("mlx5_0:1", {"link_downed": 2}),))
    missed = NodeFacts("n1", link_counters=(LinkCounters("mlx5_0:1"),))

    before = follow((), read, 10.0)

    assert follow(before, missed, 20.0) == before


def test_readings_from_the_future_are_dropped() -> None:
    """Seconds since boot never go back within a boot: such a file is another boot's."""
    later = follow((), NodeFacts("n1", gpus=(GpuFacts(0, ecc_corrected=9),)), 5000.0)

    (now,) = follow(later, NodeFacts("n1", gpus=(GpuFacts(0, ecc_corrected=1),)), 50.0)

    assert now.changes == ((50.0, 1.0),)


@given(st.lists(st.integers(0, 2**63), min_size=1, max_size=150))
def test_a_trend_stays_small_and_comes_back_from_its_file(values: list[int]) -> None:
    """Whatever a counter does, its file does not grow, and growth is never negative."""
    trend = seen(*values)

    assert len(trend.changes) <= MOST_CHANGES
    assert trend.added(WINDOW_S) >= 0
    assert msgspec.json.decode(msgspec.json.encode(trend), type=Trend) == trend
