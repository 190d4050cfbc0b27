"""What the GPU rules make of expectations, settings and time; the recordings are `test_node_rules`'."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.node.facts import GpuFacts, NodeFacts, Trend, from_json
from slurm_resilience.node.findings import Severity, worst
from slurm_resilience.node.rules import judge
from slurm_resilience.node.settings import (
    Expectations,
    NodeSettings,
    PcieExpectation,
    Thresholds,
)
from slurm_resilience.node.state.known_gpus import KnownGpu, learnt, recognised
from slurm_resilience.node.trending import follow

RECORDED = Path(__file__).parents[1] / "facts"
UUID = "GPU-00000000-0000-0000-0000-00000000000"


def told(facts: NodeFacts, settings: NodeSettings | None = None) -> list[str]:
    found = judge(facts, settings or NodeSettings())
    return [f"{one.severity.value} {one.check} {one.subject}" for one in found]


def recorded(name: str) -> NodeFacts:
    return from_json((RECORDED / f"{name}.json").read_bytes())


@pytest.mark.parametrize(
    ("name", "expect", "findings"),
    [
        (
            "h100_ecc_switched_off",
            Expectations(ecc=True),
            "drain-when-idle ecc-mode gpu1, warn gpus-differ node",
        ),
        (
            "h100_ecc_switched_off",
            Expectations(ecc=False),
            "drain-when-idle ecc-mode gpu0, warn gpus-differ node",
        ),
        ("geforce_healthy", Expectations(ecc=True), ""),
        (
            "a100_nvlinks_inactive",
            Expectations(nvlinks=12),
            "drain-when-idle nvlink-down gpu0, drain-when-idle nvlink-down gpu1",
        ),
        (
            "h100_one_nvlink_went_down",
            Expectations(nvlinks=18),
            "drain-when-idle nvlink-down gpu1",
        ),
        ("h100_one_nvlink_went_down", Expectations(nvlinks=17), ""),
        ("a100_mig_without_nvlinks", Expectations(nvlinks=12), ""),
        ("h100_pcie_without_fabric", Expectations(nvlinks=18), ""),
        (
            "h100_fabric_in_progress",
            Expectations(nvlinks=18),
            "drain-when-idle fabric-not-ready gpu1",
        ),
        ("h100_fabric_degraded", Expectations(nvlinks=18), "warn fabric-not-ready gpu1"),
        (
            "h100_pcie_x8_of_x16",
            Expectations(pcie_width=16),
            "drain-when-idle gpu-pcie-narrow gpu1",
        ),
        (
            "h100_pcie_x8_of_x16",
            Expectations(pcie={"0000:2b:00.0": PcieExpectation(width=16)}),
            "drain-when-idle gpu-pcie-narrow gpu1",
        ),
        (
            "h100_pcie_x8_of_x16",
            Expectations(pcie_width=16, pcie={"0000:2b:00.0": PcieExpectation(width=8)}),
            "",
        ),
        ("h100_pcie_x8_of_x16", Expectations(pcie_width=8), ""),
        ("h100_pcie_idle", Expectations(pcie_width=16), ""),
        (
            "h100_power_limit_low",
            Expectations(power_limit_w=400),
            "warn gpus-differ node",
        ),
        (
            "a100_mig_without_nvlinks",
            Expectations(mig=False),
            "drain-when-idle mig-unexpected gpu1",
        ),
        (
            "a100_mig_without_nvlinks",
            Expectations(mig=True),
            "drain-when-idle mig-unexpected gpu0",
        ),
        ("geforce_healthy", Expectations(mig=True), ""),
        (
            "driver_older_than_expected",
            Expectations(driver_version="550.54.15"),
            "warn driver-version node",
        ),
        ("driver_older_than_expected", Expectations(driver_version="535.86.10"), ""),
        ("h100_gone_since_boot", Expectations(), "drain-when-idle gpu-missing node"),
        ("h100_gone_since_boot", Expectations(gpus=1), "drain-when-idle gpu-missing node"),
    ],
)
def test_what_a_board_should_have_is_an_expectation(
    name: str, expect: Expectations, findings: str
) -> None:
    """The same facts, by what this kind of node has; what a card does not have is not missed."""
    settings = NodeSettings(expect=expect)

    found = [one for one in told(recorded(name), settings) if not one.startswith("ok ")]

    assert ", ".join(found) == findings


@pytest.mark.parametrize(
    ("reasons", "at_once", "lasting"),
    [
        (0x0, "ok", "ok"),
        (0x1, "ok", "ok"),
        (0x2, "ok", "ok"),
        (0x4, "ok", "ok"),
        (0x5, "ok", "ok"),
        (0x10, "ok", "ok"),
        (0x100, "ok", "ok"),
        (0x8, "warn", "drain-when-idle"),
        (0x20, "warn", "warn"),
        (0x40, "warn", "drain-when-idle"),
        (0x48, "warn", "drain-when-idle"),
        (0x80, "warn", "drain-when-idle"),
        (0x84, "warn", "drain-when-idle"),
    ],
)
def test_a_throttle_reason_is_judged_by_kind_and_time(
    reasons: int, at_once: str, lasting: str
) -> None:
    """Idle and the software power cap are normal; the hardware's own are a fault if they last."""
    gpu = GpuFacts(0, uuid=f"{UUID}0", throttle_reasons=reasons)

    for seconds, severity in ((0.0, at_once), (599.0, at_once), (600.0, lasting)):
        trend = Trend(
            f"{UUID}0", "throttle_reasons", ((1000.0, float(reasons)),), 1000 + seconds
        )
        facts = NodeFacts("n1", gpus=(gpu,), trends=(trend,))
        assert worst(judge(facts, NodeSettings())).value == severity


@pytest.mark.parametrize(
    ("generation", "lanes", "normal"), [(5, 16, 30), (4, 16, 15), (3, 16, 7), (5, 8, 15)]
)
def test_replays_are_judged_by_what_the_link_carries(
    generation: int, lanes: int, normal: int
) -> None:
    """One bit in 10^12, so 31 a minute at generation 5 with 16 lanes, 15 at generation 4."""
    gpu = GpuFacts(
        0, uuid=f"{UUID}0", pcie_generation=1, pcie_generation_max=generation,
        pcie_width=lanes, pcie_width_max=lanes, pcie_replays=0,
    )  # fmt: skip

    for a_minute, found in ((normal, []), (normal + 1, ["warn gpu-pcie-replays gpu0"])):
        trend = Trend(f"{UUID}0", "pcie_replays", ((0, 0.0), (600.0, a_minute * 10.0)), 600.0)
        assert told(NodeFacts("n1", gpus=(gpu,), trends=(trend,))) == found


@pytest.mark.parametrize(
    ("name", "thresholds", "findings"),
    [
        ("h100_ecc_corrected_177", Thresholds(ecc_corrected=100), ["warn ecc-corrected gpu1"]),
        (
            "h100_ecc_corrected_often",
            Thresholds(ecc_storm_per_s=15.0),
            ["drain-when-idle ecc-storm gpu1"],
        ),
        ("h100_rows_used_up", Thresholds(remapped_rows=600), []),
        (
            "v100_retired_pages_62",
            Thresholds(retired_pages=60),
            ["drain-when-idle retired-pages gpu1"],
        ),
        ("v100_retired_double_bit", Thresholds(retired_double_bit=16), []),
        ("h100_memory_without_process", Thresholds(gpu_memory_mib=50_000), []),
        ("h100_power_brake_lasting", Thresholds(sustained_s=3600), ["warn gpu-throttled gpu1"]),
        ("h100_nvlink_crc_errors", Thresholds(nvlink_crc_per_s=200), []),
        ("h100_clock_low_at_work", Thresholds(gpu_clock_percent=10), []),
    ],
)
def test_a_threshold_is_a_sites_own(
    name: str, thresholds: Thresholds, findings: list[str]
) -> None:
    """Bounds that others built in have drained sound nodes, so each can be set."""
    assert told(recorded(name), NodeSettings(thresholds=thresholds)) == findings


@pytest.mark.parametrize(
    ("changes", "until_s", "found"),
    [
        pytest.param([(0, 0), (1, 177)], 1.0, [], id="177 at once"),
        pytest.param([(0, 0), (1, 700)], 1.0, ["warn"], id="700 within a second"),
        pytest.param([(0, 0), (300, 5_310_000)], 300.0, ["drain-when-idle"], id="17700/s"),
        pytest.param(
            [(0, 0), (36_000, 5_310_000)], 36_000.0, ["drain-when-idle"], id="after a long calm"
        ),
        pytest.param(
            [(0, 0), (300, 5_310_000)], 80_000.0, ["drain-when-idle"], id="it rests now"
        ),
        pytest.param([(0, 0), (300, 5_310_000), (600, 3)], 600.0, [], id="it was reset"),
        pytest.param(
            [(0, 9_000_000), (300, 0), (600, 450_000)],
            600.0,
            ["drain-when-idle"],
            id="and again",
        ),
        pytest.param([(0, 49_000_000)], 80_000.0, [], id="a great total of old"),
    ],
)
def test_a_storm_is_a_rate_that_stands_until_the_reset(
    changes: list[tuple[float, float]], until_s: float, found: list[str]
) -> None:
    """Neither a handful between two close readings nor a total of old is one."""
    gpu = GpuFacts(0, uuid=f"{UUID}0", ecc_corrected=int(changes[-1][1]))
    trend = Trend(f"{UUID}0", "ecc_corrected", tuple(changes), until_s)

    findings = judge(NodeFacts("n1", gpus=(gpu,), trends=(trend,)), NodeSettings())

    assert [one.severity.value for one in findings if one.check == "ecc-storm"] == found


def test_a_gpu_without_a_limit_of_its_own_is_judged_by_the_setting() -> None:
    """Only where the board tells neither a temperature nor a margin."""
    hot = NodeFacts("n1", gpus=(GpuFacts(0, temperature_c=93),))

    assert told(hot) == ["warn gpu-hot gpu0"]
    assert told(hot, NodeSettings(thresholds=Thresholds(gpu_temperature_c=95))) == []
    cooler_than_its_limit = GpuFacts(0, temperature_c=93, temperature_margin_c=5)
    assert told(NodeFacts("n1", gpus=(cooler_than_its_limit,))) == []


def test_a_rate_follows_a_gpu_and_not_its_number() -> None:
    """NVML counts anew when a GPU is gone: another's total is no growth."""
    calm = GpuFacts(0, uuid=f"{UUID}0", ecc_corrected=0)
    busy = GpuFacts(1, uuid=f"{UUID}1", ecc_corrected=40_000_000)
    before = NodeFacts("n1", gpus=(calm, busy))
    after = NodeFacts("n1", gpus=(msgspec.structs.replace(busy, index=0),))

    trends = follow(follow((), before, 1000.0), after, 1300.0)

    assert told(msgspec.structs.replace(after, trends=trends)) == []


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "ecc_corrected": st.integers(0, 50),
                "pcie_generation": st.integers(1, 5),
                "utilization_percent": st.integers(0, 49),
                "throttle_reasons": st.sampled_from([0, 1, 2, 4, 5]),
                "temperature_c": st.integers(20, 86),
                "clock_mhz": st.integers(210, 1980),
                "memory_used_mib": st.integers(0, 80_000),
                "memory_total_mib": st.just(81_559),
                "power_w": st.floats(40, 720),
            }
        ),
        min_size=1,
        max_size=12,
    )
)
def test_a_healthy_gpu_is_never_drained(readings: list[dict[str, Any]]) -> None:
    """Whatever a sound GPU shows between jobs, at work or at rest."""
    trends: tuple[Trend, ...] = ()
    for place, reading in enumerate(readings):
        gpu = GpuFacts(
            0, uuid=f"{UUID}0", pcie_generation_max=5, pcie_width=16, pcie_width_max=16,
            clock_max_mhz=1980, temperature_slowdown_c=87, processes=(), nvlinks=(True,) * 18,
            nvlinks_seen=18, **reading,
        )  # fmt: skip
        facts = NodeFacts("n1", gpus=(gpu,))
        trends = follow(trends, facts, 300.0 * (place + 1))
        found = judge(msgspec.structs.replace(facts, trends=trends), NodeSettings())
        assert worst(found) < Severity.DRAIN_WHEN_IDLE


# ── names ───────────────────────────────────────────────────────────────────────────────────

EARLIER = NodeFacts(
    "n1",
    gpus=tuple(
        GpuFacts(
            index, uuid=f"{UUID}{index}", pci=f"0000:{index + 1}b:00.0", minor=7 - index,
            serial=f"s{index}", nvlinks=(True,) * 18,
        )
        for index in range(3)
    ),
)  # fmt: skip
KNOWN = learnt(EARLIER, ())


def test_a_lost_gpu_keeps_its_names() -> None:
    """What it no longer tells is known from earlier in the boot; that it is lost stays."""
    first, _, last = EARLIER.gpus or ()
    now = NodeFacts("n1", gpus=(first, GpuFacts(1, lost=True), last))

    facts = recognised(now, KNOWN)

    lost = (facts.gpus or ())[1]
    assert (lost.uuid, lost.pci, lost.minor, lost.serial, lost.lost) == (
        f"{UUID}1", "0000:2b:00.0", 6, "s1", True,
    )  # fmt: skip
    assert facts.gone == ()
    assert told(facts) == ["drain gpu-lost gpu1"]


def test_a_gpu_that_answers_only_errors_is_lost_under_its_name() -> None:
    """That its name is remembered does not make it answer."""
    dead = GpuFacts(1, unread={"handle": "Unknown"})
    first, _, last = EARLIER.gpus or ()

    facts = recognised(NodeFacts("n1", gpus=(first, dead, last)), KNOWN)

    (lost,) = (one for one in judge(facts, NodeSettings()) if one.check == "gpu-lost")
    assert f"({UUID}1)" in lost.detail


def test_a_gpu_that_is_listed_no_more_is_gone() -> None:
    """The ones behind it move up: each is known by its address, not by its number."""
    first, _, last = EARLIER.gpus or ()
    now = NodeFacts("n1", gpus=(first, msgspec.structs.replace(last, index=1)))

    facts = recognised(now, KNOWN)

    assert [gpu.uuid for gpu in facts.gpus or ()] == [f"{UUID}0", f"{UUID}2"]
    assert [(gpu.index, gpu.uuid) for gpu in facts.gone] == [(1, f"{UUID}1")]
    (missing,) = judge(facts, NodeSettings(expect=Expectations(gpus=3)))
    assert missing.detail == f"2 of 3 GPUs; gone: gpu1 ({UUID}1, 0000:2b:00.0)"


def test_a_lost_gpu_takes_no_others_name() -> None:
    """With the number of one that still answers elsewhere, it stays without a name."""
    first, second, _ = EARLIER.gpus or ()
    now = NodeFacts("n1", gpus=(GpuFacts(0, lost=True), first, second))

    facts = recognised(msgspec.structs.replace(now), KNOWN)

    assert (facts.gpus or ())[0].uuid is None
    assert [gpu.uuid for gpu in facts.gone] == [f"{UUID}2"]


def test_after_a_reboot_nothing_is_missed_but_by_expectation() -> None:
    """A GPU that was taken out on purpose is asked for no longer."""
    now = NodeFacts("n1", gpus=(EARLIER.gpus or ())[:2])

    assert told(recognised(now, KNOWN)) == ["drain-when-idle gpu-missing node"]
    assert told(recognised(now, ())) == []


def test_where_nvml_is_silent_nobody_is_gone() -> None:
    """Not read is not gone."""
    assert recognised(NodeFacts("n1", nvml_error="Unknown"), KNOWN).gone == ()


def test_what_was_up_once_is_remembered() -> None:
    """The greatest number of NVLinks, and a serial that only the health check reads."""
    down = msgspec.structs.replace((EARLIER.gpus or ())[0], nvlinks=(False,) * 18, serial=None)
    later = learnt(NodeFacts("n1", gpus=(down,)), KNOWN)

    assert later[0] == KnownGpu(0, "0000:1b:00.0", f"{UUID}0", minor=7, serial="s0", nvlinks=18)
    assert len(later) == 3
    facts = recognised(NodeFacts("n1", gpus=(down,)), later)
    assert "drain-when-idle nvlink-down gpu0" in told(facts)


def test_a_gpu_in_anothers_place_inherits_nothing() -> None:
    """Swapped without a reboot: neither the serial nor the links of the one before it."""
    fresh = GpuFacts(0, uuid=f"{UUID}9", pci="0000:1b:00.0", minor=7, nvlinks=(False,) * 18)
    now = NodeFacts("n1", gpus=(fresh, *(EARLIER.gpus or ())[1:]))

    assert learnt(now, KNOWN)[0] == KnownGpu(0, "0000:1b:00.0", f"{UUID}9", minor=7)
    assert told(recognised(now, KNOWN)) == []
