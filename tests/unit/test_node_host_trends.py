"""What the host's checks remember from reading to reading."""

import pytest

from slurm_resilience.node.facts import NodeFacts, ProcessFacts, StuckProcess, Trend
from slurm_resilience.node.findings import Severity
from slurm_resilience.node.rules.host import process_stuck
from slurm_resilience.node.settings import NodeSettings
from slurm_resilience.node.trending import follow


def node(*stuck: tuple[int, int]) -> NodeFacts:
    """A node whose processes of these pids, with so many context switches, are in D state."""
    processes = tuple(
        StuckProcess(pid, "nvidia-smi", "D", switches, in_driver=True)
        for pid, switches in stuck
    )
    return NodeFacts("n1", processes=ProcessFacts(stuck=processes, steps=1))


def read(*readings: NodeFacts, every_s: float = 120.0) -> tuple[Trend, ...]:
    trends: tuple[Trend, ...] = ()
    for place, facts in enumerate(readings):
        trends = follow(trends, facts, 1000.0 + place * every_s)
    return trends


@pytest.mark.parametrize(
    ("readings", "found"),
    [
        pytest.param([node((7, 92))], [], id="seen once"),
        pytest.param([node((7, 92))] * 3, [], id="not for long"),
        pytest.param([node((7, 92))] * 4, ["pid7"], id="in each, and never run"),
        pytest.param([node((7, 92)), node((7, 95)), *[node((7, 99))] * 2], [], id="it ran"),
        pytest.param(
            [node((7, 92)), node((7, 92)), node(), node((7, 92))], [], id="not there once"
        ),
        pytest.param([node((pid, 92)) for pid in range(4)], [], id="another one each time"),
    ],
)
def test_only_a_process_that_never_ran_is_stuck(
    readings: list[NodeFacts], found: list[str]
) -> None:
    """One that is in D state whenever it is looked at may just be busy reading."""
    facts = readings[-1]
    trends = read(*readings)
    judged = NodeFacts("n1", processes=facts.processes, trends=trends)

    findings = list(process_stuck(judged, NodeSettings()))

    assert [one.subject for one in findings] == found
    assert all(one.severity is Severity.DRAIN_WHEN_IDLE for one in findings)


def test_a_process_that_is_stuck_no_longer_is_forgotten() -> None:
    """Pids come by the thousand; what is kept does not grow with them."""
    trends = read(*[node((pid, 1)) for pid in range(500)])

    assert len([one for one in trends if one.subject.startswith("pid")]) == 1


def test_a_reading_that_failed_forgets_nobody() -> None:
    """A value that is missing once is no change."""
    trends = read(node((7, 92)), NodeFacts("n1"))

    assert any(one.subject == "pid7" for one in trends)
