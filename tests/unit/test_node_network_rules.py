"""Network links, their modules and PCIe links: faults, and near misses."""
# ruff: noqa: ANN401 - a row of a table names only what differs

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from slurm_resilience.node.facts import (
    GpuFacts,
    LinkCounters,
    LinkFacts,
    NodeFacts,
    OpticsFacts,
    PcieFacts,
)
from slurm_resilience.node.rules.network import NETWORK_RULES
from slurm_resilience.node.rules.pcie import PCIE_RULES
from slurm_resilience.node.settings import (
    Expectations,
    LinkErrorRates,
    LinkExpectation,
    NodeSettings,
    PcieExpectation,
    Thresholds,
)
from slurm_resilience.node.trending import follow

EXPECTING = NodeSettings(
    expect=Expectations(
        links={
            "mlx5_0:1": LinkExpectation(rate_gbps=400),
            "mlx5_7:1": LinkExpectation(),
            "eth0": LinkExpectation(),
        },
        pcie={
            "0000:1b:00.0": PcieExpectation(width=16, speed_gts=32),
            "0000:41:00.0": PcieExpectation(width=16, speed_gts=32),
        },
    )
)
NOTHING = NodeSettings()
EVERY_S = 300.0


def told(facts: NodeFacts, settings: NodeSettings = EXPECTING) -> list[str]:
    return [
        f"{one.severity.value} {one.check} {one.subject}"
        for rule in (*NETWORK_RULES, *PCIE_RULES)
        for one in rule(facts, settings)
    ]


def seen(*readings: NodeFacts, every_s: float = EVERY_S) -> NodeFacts:
    """The last of *readings*, with how its values went since the first."""
    trends: tuple[Any, ...] = ()
    for place, facts in enumerate(readings):
        trends = follow(trends, facts, 100.0 + place * every_s)
    return msgspec.structs.replace(readings[-1], trends=trends)


def up(name: str = "mlx5_0:1", **more: Any) -> LinkFacts:
    port = ":" in name
    return LinkFacts(
        name,
        state="ACTIVE" if port else "UP",
        physical_state="LinkUp" if port else None,
        layer="InfiniBand" if port else "Ethernet",
        rate_gbps=400,
        **more,
    )


def down(name: str = "mlx5_0:1", physical: str | None = "Polling", **more: Any) -> LinkFacts:
    more = {"layer": "InfiniBand" if ":" in name else "Ethernet", **more}
    return LinkFacts(name, state="DOWN", physical_state=physical, **more)


def node(*links: LinkFacts, **more: Any) -> NodeFacts:
    return NodeFacts("n1", links=links, **more)


STATES: dict[str, tuple[LinkFacts, list[str]]] = {
    "up": (up(), []),
    "no cable or switch": (down(), ["drain link-down mlx5_0:1"]),
    "switched off": (down(physical="Disabled"), ["drain link-down mlx5_0:1"]),
    "no subnet manager": (down(physical="LinkUp"), ["warn link-down mlx5_0:1"]),
    "subnet manager comes": (
        LinkFacts("mlx5_0:1", state="INIT", physical_state="LinkUp", layer="InfiniBand"),
        ["warn link-down mlx5_0:1"],
    ),
    "RoCE has no subnet manager": (
        down(physical="LinkUp", layer="Ethernet"),
        ["drain link-down mlx5_0:1"],
    ),
    "gone": (LinkFacts("mlx5_0:1", present=False), ["drain link-down mlx5_0:1"]),
    "unread": (LinkFacts("mlx5_0:1", unread={"state": "Input/output error"}), []),
    "unused Ethernet port of a card": (
        down("mlx4_0:2", physical="Disabled", layer="Ethernet"),
        [],
    ),
    "unused port": (down("mlx5_9:1"), []),
    "half duplex": (up("eth0", duplex="half"), ["drain-when-idle link-slow eth0"]),
    "full duplex": (up("eth0", duplex="full"), []),
    "one lane of four": (up("mlx5_7:1", lanes=1), ["warn link-slow mlx5_7:1"]),
    "a split cable": (up("mlx5_7:1", lanes=2), []),
}


@pytest.mark.parametrize(("link", "findings"), STATES.values(), ids=STATES)
def test_a_link_is_judged_by_its_state(link: LinkFacts, findings: list[str]) -> None:
    """Expected links only, and a link that waits for its fabric is no fault of the node."""
    assert told(node(link)) == findings


def test_the_ports_of_three_adapters_are_judged_apart() -> None:
    """A cable that is out, a fabric that is not ready, a port that nobody uses."""
    ports = (
        down("mlx5_0:1"),
        down("mlx5_7:1", physical="LinkUp"),
        down("mlx4_0:1"),
        down("mlx4_0:2", physical="Disabled", layer="Ethernet"),
        up("eth0"),
    )

    assert told(node(*ports)) == ["drain link-down mlx5_0:1", "warn link-down mlx5_7:1"]


def test_a_link_that_was_up_is_missed_without_any_expectation() -> None:
    """A warning: nobody said that it is needed. A management port is nobody's concern."""
    before = node(up("mlx5_5:1"), up("eth4", rdma=False))
    after = node(down("mlx5_5:1"), down("eth4", physical=None, rdma=False))

    assert told(seen(before, after), NOTHING) == ["warn link-down mlx5_5:1"]
    assert told(seen(after, after), NOTHING) == []


def test_an_adapter_that_vanished_is_missed_without_any_expectation() -> None:
    """sysfs shows it no more; what could not be read at all has not vanished."""
    before, after = node(up("mlx5_5:1"), up("mlx5_6:1")), node(up("mlx5_6:1"))

    assert told(seen(before, after), NOTHING) == ["warn link-down mlx5_5:1"]
    assert told(seen(before, NodeFacts("n1")), NOTHING) == []
    assert told(seen(node(down("mlx5_5:1")), after), NOTHING) == []


def test_a_link_slower_than_before_is_told_without_any_expectation() -> None:
    """It lost lanes or speed when it came back."""
    before, after = (
        node(up("mlx5_7:1")),
        node(LinkFacts("mlx5_7:1", state="ACTIVE", rate_gbps=100)),
    )

    assert told(seen(before, after)) == ["warn link-slow mlx5_7:1"]
    assert told(seen(after, before)) == []


def counted(
    name: str, counter: str, values: Sequence[int], every_s: float = EVERY_S
) -> NodeFacts:
    return seen(
        *(node(up(name), link_counters=(LinkCounters(name, {counter: n}),)) for n in values),
        every_s=every_s,
    )


COUNTS: dict[str, tuple[str, str, list[int], list[str]]] = {
    "three falls within an hour": (
        "mlx5_0:1", "link_downed", [7, 8, 10], ["drain-when-idle link-flapping mlx5_0:1"],
    ),
    "of a link that nobody expects": (
        "mlx5_9:1", "link_downed", [7, 8, 10], ["warn link-flapping mlx5_9:1"],
    ),
    "two falls": ("mlx5_0:1", "link_downed", [7, 8, 9], []),
    "a lifetime of falls": ("mlx5_0:1", "link_downed", [900, 900, 900], []),
    "falls at the first look": ("mlx5_0:1", "link_downed", [900], []),
    "an hour after the falls": ("mlx5_0:1", "link_downed", [0, 5, *[5] * 13], []),
    "integrity": (
        "mlx5_0:1", "local_link_integrity_errors", [3, 4],
        ["drain-when-idle link-integrity mlx5_0:1"],
    ),
    "overrun of a link that nobody expects": (
        "mlx5_9:1", "excessive_buffer_overrun_errors", [0, 1],
        ["warn link-integrity mlx5_9:1"],
    ),
    "integrity long ago": ("mlx5_0:1", "local_link_integrity_errors", [3, 3], []),
    "symbol errors above the specification": (
        "mlx5_0:1", "symbol_error", [0, 10], ["warn link-errors mlx5_0:1"],
    ),
    "symbol errors below": ("mlx5_0:1", "symbol_error", [0, 9], []),
    "symbol errors of a lifetime": ("mlx5_0:1", "symbol_error", [65_535, 65_535], []),
    "discards": ("mlx5_0:1", "port_xmit_discards", [0, 30_000], ["warn link-errors mlx5_0:1"]),
    "some discards": ("mlx5_0:1", "port_xmit_discards", [0, 29_000], []),
    "time-outs": ("eth0", "local_ack_timeout_err", [5, 305], ["warn link-errors eth0"]),
    "check sums": ("eth0", "rx_crc_errors", [0, 400], ["warn link-errors eth0"]),
    "a driver that was loaded again": ("mlx5_0:1", "symbol_error", [65_000, 2], []),
    "a counter that nobody judges": ("mlx5_0:1", "port_xmit_wait", [0, 10**9], []),
}  # fmt: skip


@pytest.mark.parametrize(("name", "counter", "values", "findings"), COUNTS.values(), ids=COUNTS)
def test_counters_are_judged_by_their_growth(
    name: str, counter: str, values: list[int], findings: list[str]
) -> None:
    """Never by what they have counted in a lifetime."""
    assert told(counted(name, counter, values)) == findings


def test_errors_of_a_management_port_are_nobodys_concern() -> None:
    """Its adapter has no RDMA, and nobody expects it."""
    readings = [
        node(up("eno1", rdma=False), link_counters=(LinkCounters("eno1", {"rx_errors": n}),))
        for n in (0, 10**6)
    ]

    assert told(seen(*readings)) == []


def test_a_counter_can_be_left_alone() -> None:
    """null: a site whose fabric is congested by design."""
    settings = NodeSettings(
        thresholds=Thresholds(link_errors_per_s=LinkErrorRates(port_xmit_discards=None))
    )

    assert told(counted("mlx5_0:1", "port_xmit_discards", [0, 10**7]), settings) == []


MODULES: dict[str, tuple[LinkFacts, OpticsFacts, list[str]]] = {
    "no light": (
        up("eth0"),
        OpticsFacts("eth0", alarms=("Laser rx power low alarm",), receive_power_dbm=(-40.0,)),
        ["warn optics-alarm eth0"],
    ),
    "no alarm": (up("eth0"), OpticsFacts("eth0", temperature_c=60, alarms=()), []),
    "a link that is down": (
        down("eth1", physical=None),
        OpticsFacts("eth1", alarms=("Laser rx power low alarm",)),
        [],
    ),
    "too hot": (
        up("eth0"),
        OpticsFacts("eth0", temperature_c=80, temperature_limit_c=80),
        ["warn optics-alarm eth0"],
    ),
    "warm": (up("eth0"), OpticsFacts("eth0", temperature_c=79, temperature_limit_c=80), []),
    "hot without a limit": (up("eth0"), OpticsFacts("eth0", temperature_c=90), []),
    "copper": (up("eth0"), OpticsFacts("eth0", unread={"module": "not supported: …"}), []),
}


@pytest.mark.parametrize(("link", "module", "findings"), MODULES.values(), ids=MODULES)
def test_a_module_is_judged_by_its_own_limits(
    link: LinkFacts, module: OpticsFacts, findings: list[str]
) -> None:
    """The module knows what is too hot or too dark for it."""
    assert told(node(link, optics=(module,))) == findings


def nic(address: str = "0000:41:00.0", **more: Any) -> PcieFacts:
    values = {"width": 16, "speed_gts": 32.0, **more}
    return PcieFacts(address, "nic", "15b3:1021", **values)


def gpu(**more: Any) -> PcieFacts:
    return PcieFacts("0000:1b:00.0", "gpu", "10de:2330", **more)


BUS: dict[str, tuple[tuple[PcieFacts, ...], NodeSettings, list[str]]] = {
    "healthy": ((nic(), gpu(width=16, speed_gts=32.0)), EXPECTING, []),
    "an idle GPU": ((gpu(width=16, speed_gts=2.5),), EXPECTING, []),
    "a GPU's lanes, which NVML tells": ((gpu(width=8),), EXPECTING, []),
    "an adapter in a small slot": ((nic(width=8),), NOTHING, []),
    "an adapter expected wider": (
        (nic(width=8),), EXPECTING, ["drain-when-idle pcie-narrow 0000:41:00.0"],
    ),
    "an adapter expected faster": (
        (nic(speed_gts=16.0),), EXPECTING, ["drain-when-idle pcie-narrow 0000:41:00.0"],
    ),
    "narrower than its twin": (
        (nic(), nic("0000:5c:00.0", width=8)), NOTHING, ["warn pcie-narrow 0000:5c:00.0"],
    ),
    "slower than its twin": (
        (nic(), nic("0000:5c:00.0", speed_gts=8.0)), NOTHING, ["warn pcie-narrow 0000:5c:00.0"],
    ),
    "a dead GPU": ((gpu(all_ones=True),), EXPECTING, ["drain pcie-gone gpu0"]),
    "a dead adapter": ((nic(all_ones=True, width=None),), NOTHING, ["drain pcie-gone 0000:41:00.0"]),
    "not shown": ((nic(width=None, speed_gts=None), gpu()), EXPECTING, []),
}  # fmt: skip


@pytest.mark.parametrize(("devices", "settings", "findings"), BUS.values(), ids=BUS)
def test_a_pcie_link_is_judged_against_what_it_should_be(
    devices: tuple[PcieFacts, ...], settings: NodeSettings, findings: list[str]
) -> None:
    """What the device could do at most decides nothing; nor does an idle GPU's speed."""
    facts = NodeFacts("n1", gpus=(GpuFacts(0, pci="0000:1b:00.0"),), pcie=devices)

    assert told(facts, settings) == findings


def test_an_adapter_that_lost_lanes_in_this_boot_is_told() -> None:
    """Without twins and expectations its own past is left."""
    before, after = (NodeFacts("n1", pcie=(nic(width=width),)) for width in (16, 8))

    assert told(seen(before, after), NOTHING) == ["warn pcie-narrow 0000:41:00.0"]


ERRORS: dict[str, tuple[str, list[int], list[str]]] = {
    "fatal": ("fatal", [0, 1], ["drain-when-idle pcie-error-rate gpu0"]),
    "fatal before the first look": ("fatal", [5, 5], []),
    "nonfatal": ("nonfatal", [1, 2], ["warn pcie-error-rate gpu0"]),
    "a storm": ("corrected", [0, 3000], ["warn pcie-error-rate gpu0"]),
    "some": ("corrected", [0, 2900], []),
    "a lifetime": ("corrected", [10**9, 10**9], []),
}


@pytest.mark.parametrize(("counter", "values", "findings"), ERRORS.values(), ids=ERRORS)
def test_aer_is_judged_by_its_growth(
    counter: str, values: list[int], findings: list[str]
) -> None:
    """Corrected errors are what the link is there to correct."""
    readings = [
        NodeFacts(
            "n1", gpus=(GpuFacts(0, pci="0000:1b:00.0"),), pcie=(gpu(**{counter: value}),)
        )
        for value in values
    ]

    assert told(seen(*readings)) == findings
