"""What the host's rules say beyond a finding's name, and of what is expected."""

import pytest

from slurm_resilience.node.facts import DimmFacts, DriveFacts, MemoryFacts, NodeFacts, Trend
from slurm_resilience.node.learning import learn
from slurm_resilience.node.rules import judge
from slurm_resilience.node.settings import Expectations, NodeSettings


def told(facts: NodeFacts, expect: Expectations) -> list[str]:
    findings = judge(facts, NodeSettings(expect=expect))
    return [f"{one.severity.value} {one.check} {one.subject}: {one.detail}" for one in findings]


def drives(*states: str) -> NodeFacts:
    found = tuple(DriveFacts(f"nvme{place}", state) for place, state in enumerate(states))
    return NodeFacts("n1", drives=found)


@pytest.mark.parametrize(
    ("facts", "expected", "said"),
    [
        pytest.param(drives("live", "live"), 2, [], id="all there"),
        pytest.param(
            drives("live"),
            2,
            ["drain-when-idle drive-missing node: 1 of 2 NVMe drives"],
            id="lost",
        ),
        pytest.param(drives("live"), None, [], id="not expected"),
        pytest.param(NodeFacts("n1"), 2, [], id="not read"),
        pytest.param(
            drives("live", "dead"),
            2,
            ["drain-when-idle drive-missing nvme1: the kernel has given it up: dead"],
            id="given up",
        ),
        pytest.param(drives("live", "resetting"), 2, [], id="being reset"),
    ],
)
def test_drives_are_missed_where_they_are_expected(
    facts: NodeFacts, expected: int | None, said: list[str]
) -> None:
    """By their number; whoever expects none misses none."""
    assert told(facts, Expectations(nvme_drives=expected)) == said


def test_memory_errors_name_their_module() -> None:
    """Who replaces it has sixteen to choose from."""
    dimms = (DimmFacts("A1", 800, 0), DimmFacts("B2", 3, 1))
    facts = NodeFacts(
        "n1",
        memory=MemoryFacts(corrected=803, uncorrected=1, dimms=dimms),
        trends=(Trend("node", "corrected", ((100.0, 3.0), (900.0, 803.0)), 1000.0),),
    )

    uncorrected, corrected = told(facts, Expectations())

    assert uncorrected.endswith("1 uncorrected host memory errors since boot, at B2")
    assert corrected.endswith("800 corrected host memory errors within the last hour, at A1")


def test_a_good_node_teaches_how_many_drives_its_kind_has() -> None:
    """What `facts --learn` writes; a node without any teaches nothing of them."""
    assert learn(drives("live", "live"), Expectations()).nvme_drives == 2
    assert learn(NodeFacts("n1", drives=()), Expectations()).nvme_drives is None
