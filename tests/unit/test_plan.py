"""The arithmetic of a plan, against published figures."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.planning.facts import Asked, Measured
from slurm_resilience.planning.rules import (
    GB,
    GIB,
    best_interval_s,
    bytes_per_parameter,
    ettr,
    planned,
)

HOUR_S = 3600.0
SEVEN = Asked(
    parameters=7e9, nodes=8, gpus_per_node=8, write_gb_per_s=5.0, mtbf_s=8 * HOUR_S, step_s=4.0
)


@pytest.mark.parametrize(
    ("optimizer", "precision", "expected"),
    [
        ("adamw", "mixed", 14), ("adamw", "fp32", 12), ("adamw", "bf16", 6), ("sgd", "fp32", 4),
        ("sgd-momentum", "fp32", 8), ("adamw-8bit", "bf16", 4), ("lion", "mixed", 10),
    ],
)  # fmt: skip
def test_bytes_of_a_parameter(optimizer: str, precision: str, expected: float) -> None:
    """Weights, in mixed precision twice, and what the optimizer keeps."""
    assert bytes_per_parameter(optimizer, precision) == expected


def test_the_size_of_a_published_checkpoint() -> None:
    """BLOOM-176B, AdamW in mixed precision: 2.3 TB were published."""
    size_bytes = 176e9 * bytes_per_parameter("adamw", "mixed")

    assert size_bytes == pytest.approx(2.3e12, rel=0.1)


@pytest.mark.parametrize(
    ("cost_s", "mtbf_s", "expected_s"),
    [
        (300.0, 24 * HOUR_S, 7002.0),  # Young: 7200; Daly: less by two thirds of the cost
        (60.0, 8 * HOUR_S, 1818.0),
        (1000.0, 500.0, 500.0),
        (0.0, HOUR_S, 0.0),
    ],
)
def test_the_interval_is_dalys(cost_s: float, mtbf_s: float, expected_s: float) -> None:
    """Worked by hand; where a save takes two times the MTBF there is no best one."""
    assert best_interval_s(cost_s, mtbf_s) == pytest.approx(expected_s, rel=1e-3)


@settings(deadline=None)
@given(st.floats(0.1, 600), st.floats(3600, 1e6), st.sampled_from([0.5, 0.8, 1.25, 2.0]))
def test_no_other_interval_is_better(cost_s: float, mtbf_s: float, factor: float) -> None:
    """Saving more often or more seldom loses more of the time."""

    def share(interval_s: float) -> float:
        return ettr(interval_s, cost_s, interval_s / 2 + 400, mtbf_s)

    best_s = best_interval_s(cost_s, mtbf_s)

    assert share(best_s * factor) <= share(best_s) + 0.01


def test_ettr_is_the_published_one() -> None:
    """Half an hour between saves, eight minutes to restart, 7.9 h between failures: 0.95."""
    assert ettr(1800, 0, 900 + 480, 7.9 * HOUR_S) == pytest.approx(0.95, abs=0.002)
    assert ettr(1800, 0, 1e9, HOUR_S) == 0


def test_a_plan_holds_together() -> None:
    """Seven billion parameters on 64 GPUs, every number worked by hand."""
    plan = planned(SEVEN, Measured())

    assert plan.checkpoint_bytes.value == 98 * GB
    assert plan.save_s.value == pytest.approx(19.6)
    assert plan.blocked_s.value == pytest.approx(98 / 64 / 10)
    assert plan.cost_s.value == pytest.approx(0.153 + 1.96, abs=1e-3)
    assert plan.interval_s.value == pytest.approx(347, abs=1)
    assert plan.interval_steps
    assert plan.interval_steps.value == 86
    assert plan.lost_per_failure_s.value == pytest.approx(347 / 2 + 19.6 + 300 + 19.6, abs=1)
    assert 0.97 < plan.ettr.value < 0.98
    assert plan.lost_gpu_hours_per_day.value == pytest.approx((1 - plan.ettr.value) * 64 * 24)
    assert plan.signal_lead_s.value == 60
    assert plan.collective_timeout_s.value == 600
    assert plan.host_memory_bytes.value == 960 * GIB
    assert plan.disk_bytes.value == 4 * 98 * GB
    assert plan.warnings == ()


MEASURED = Measured(size_bytes=98 * GB, save_s=49.0, step_s=5.0, failures=6, ran_s=60 * HOUR_S, away_s=30.0)  # fmt: skip


def test_what_was_measured_comes_first_and_is_named() -> None:
    """A save that took longer than the disk promised, a failure more often than hoped."""
    asked = Asked(nodes=8, gpus_per_node=8)

    plan = planned(asked, MEASURED)

    assert plan.save_s.value == 49.0
    assert plan.mtbf_s.value == 10 * HOUR_S
    assert plan.mtbf_s.source == "measured: 6 in 60.0 h"
    assert plan.recovery_s.value == 30 + 300 + 49
    assert plan.signal_lead_s.value == 110
    assert plan.interval_steps
    assert planned(msgspec.structs.replace(SEVEN, mtbf_s=HOUR_S), MEASURED).mtbf_s.source == "as said"  # fmt: skip


def test_another_size_is_written_at_the_measured_rate() -> None:
    """A checkpoint of another model still tells what the disk does."""
    asked = Asked(parameters=14e9, nodes=8, gpus_per_node=8)

    plan = planned(asked, MEASURED)

    assert plan.save_s.value == pytest.approx(98.0)
    assert plan.save_s.source == "measured: 2 GB/s"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"parameters": None}, "say --params"),
        ({"write_gb_per_s": None}, "say --write-gbps"),
        ({"mtbf_s": None}, "say --mtbf"),
    ],
)
def test_what_nothing_tells_has_to_be_said(asked: dict[str, None], says: str) -> None:
    """Nothing is made up."""
    with pytest.raises(ValueError, match=says):
        planned(msgspec.structs.replace(SEVEN, **asked), Measured())


@pytest.mark.parametrize(
    ("asked", "measured", "says"),
    [
        ({"write_gb_per_s": 0.01}, Measured(), "hides a hang"),
        ({"write_gb_per_s": 0.001}, Measured(), "Slurm takes no lead"),
        ({"write_gb_per_s": 0.05, "mtbf_s": 600.0}, Measured(), "failures come faster than saves"),
        ({"mtbf_s": 700.0}, Measured(), "less than half of the time"),
        ({"parameters": 1e12, "write_gb_per_s": 500.0}, Measured(), "stages 1630 GiB"),
        ({"mtbf_s": None}, Measured(failures=1, ran_s=HOUR_S), "MTBF of 1 failure is a guess"),
        ({}, Measured(notes=("x: not read",)), "x: not read"),
    ],
)  # fmt: skip
def test_what_should_worry_is_said(
    asked: dict[str, float], measured: Measured, says: str
) -> None:
    """A plan that cannot work says so."""
    plan = planned(msgspec.structs.replace(SEVEN, **asked), measured)

    assert any(says in warning for warning in plan.warnings)


@settings(deadline=None)
@given(
    st.builds(
        Asked,
        parameters=st.floats(1, 1e15),
        nodes=st.integers(1, 10**6),
        gpus_per_node=st.integers(1, 10**6),
        write_gb_per_s=st.floats(1e-3, 1e6),
        mtbf_s=st.floats(1, 3e9),
        slowdown=st.floats(0, 1),
        step_s=st.floats(1e-3, 1e6),
    )
)
def test_every_plan_is_made_of_numbers(asked: Asked) -> None:
    """No division by nothing, no share outside 0 to 1."""
    plan = planned(asked, Measured())

    values = [getattr(plan, name) for name in plan.__struct_fields__ if name != "warnings"]
    assert all(math.isfinite(one.value) and one.value >= 0 for one in values)
    assert plan.interval_s.value >= 60
    assert 0 <= plan.ettr.value <= 1
