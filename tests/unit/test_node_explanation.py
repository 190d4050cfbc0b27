"""What is said of a node that takes no work: whose it is, why, what helps, by what evidence."""

import pytest

from slurm_resilience.node.explanation import explain
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.policy.standing import Visited
from slurm_resilience.node.policy.strikes import Strike, Thing
from slurm_resilience.slurm.values import Node

OURS = "slurm-resilience: row-remap-pending gpu3: needs a reset"


def node(reason: str) -> Node:
    return Node("n1", "IDLE", frozenset({"DRAIN"}), reason, reason_at=1796090620.0)


@pytest.mark.parametrize(
    ("reason", "whose", "check", "advice", "person"),
    [
        (f"{OURS}; reset [boot 1a2b3c4d]", "ours", "row-remap-pending", "reset", ""),
        (f"{OURS} [boot 1a2b3c4d]", "ours", "row-remap-pending", "reset", ""),
        (
            f"{OURS}; 2nd time in 30 days, reboot [boot 1a2b3c4d]",
            "ours", "row-remap-pending", "2nd time in 30 days, reboot", "",
        ),
        (
            "slurm-resilience: row-remap-failed gpu3: needs replacing",
            "ours", "row-remap-failed", "repair", "repair",
        ),
        ("slurm-resilience: of-old gpu3: gone; reset", "ours", "of-old", "reset", "no check here"),
        ("slurm-resilience: garbled", "ours", "", "", "no check here"),
        ("swap DIMM 4, ask Ann", "theirs", "", "", ""),
        ("Prolog error: 571 xid 13 errors", "theirs", "", "", ""),
        ("", "nobody", "", "", ""),
    ],
    ids=["first", "of-before-advice", "second", "repair", "former-check", "garbled", "admin",
         "slurm", "nobody"],
)  # fmt: skip
def test_a_reason_is_explained(
    reason: str, whose: str, check: str, advice: str, person: str
) -> None:
    """By its own words, wherever one asks."""
    told = explain(node(reason))

    assert (told.whose, told.check, told.advice) == (whose, check, advice)
    assert (told.node, told.state, told.since) == ("n1", "IDLE+DRAIN", 1796090620.0)
    assert bool(told.person) == bool(person)
    assert person in told.person


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("Prolog error", "a prolog failed"),
        ("Kill task failed", "would not die"),
        ("gres/gpu count reported lower than configured (0 < 1)", "fewer GPUs than slurm.conf"),
        ("NHC: ", "Node Health Check"),
        ("reboot requested", "asked Slurm to reboot"),
        ("fan is loud", ""),
    ],
)
def test_what_slurm_and_others_mean(reason: str, meaning: str) -> None:
    """A short word of Slurm's is worth a sentence; its drain stays its own."""
    told = explain(node(reason))

    assert meaning in told.meaning
    assert bool(told.meaning) == bool(meaning)
    assert told.whose == "theirs"


def test_the_nodes_own_memory_is_the_evidence() -> None:
    """What its last hook found, and how often it was the same; of that node only."""
    found = (
        Finding("row-remap-pending", Severity.DRAIN_WHEN_IDLE, "gpu3", "needs a reset", gpu=3),
        Finding("nvml-unavailable", Severity.OK, "node", "no driver"),
    )
    visited = Visited("n1", "boot", "health", 1796090700.0, found)
    strikes = [Strike("row-remap-pending", Thing("gpu3", "GPU-3", "0000:3b:00.0"), 1.0)] * 3

    told = explain(node(OURS), visited, strikes)
    other = explain(node(OURS), Visited("n2", "boot", "health", 1.0, found))

    assert told.evidence == found[:1]
    assert (told.seen_by, told.seen_at) == ("health", 1796090700.0)
    assert "3 times: only a person" in told.person
    assert (other.evidence, other.seen_at) == ((), None)
