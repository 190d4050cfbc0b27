"""What the probes answered becomes facts, and what makes no sense becomes no news."""

from slurm_resilience.node.facts import assemble
from slurm_resilience.node.findings import Severity
from slurm_resilience.node.rules import judge
from slurm_resilience.node.settings import Expectations, NodeSettings

IDENTITY = {"node": "n1", "boot_id": "3f2c6a1e", "at": 1764500000.0}


def test_one_odd_answer_costs_no_other() -> None:
    """A driver that answers a count with words hides neither the GPUs' loss nor the full disk."""
    facts = assemble(
        IDENTITY,
        {
            "nvml": {"gpus": [{"index": 0, "lost": True, "unread": {}}], "driver_version": 550},
            "memory": {"total_mib": "a lot", "unread": {}},
            "disk:/tmp": {
                "path": "/tmp",
                "mounted": True,
                "read_only": False,
                "used_percent": 99,
            },
        },
        {},
        (),
    )

    assert facts.memory is None
    assert facts.driver_version is None
    told = {one.check: one.severity for one in judge(facts, NodeSettings())}
    assert told["gpu-lost"] is Severity.DRAIN
    assert told["disk-full"] is Severity.DRAIN_WHEN_IDLE
    assert told["unread"] is Severity.UNKNOWN


def test_gpus_that_make_no_sense_drain_nothing() -> None:
    """What cannot be understood is not a missing GPU."""
    facts = assemble(IDENTITY, {"nvml": {"gpus": [{"index": "first"}]}}, {}, ())

    findings = judge(facts, NodeSettings(expect=Expectations(gpus=8)))

    assert [(one.check, one.severity) for one in findings] == [("unread", Severity.UNKNOWN)]
    assert "gpus" in findings[0].subject
