"""Recorded facts and the findings they deserve: a new recording is a new test."""

from pathlib import Path

import msgspec
import pytest

from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.facts import from_json, to_json
from slurm_resilience.node.findings import Severity, worst
from slurm_resilience.node.rules import RULES, judge
from slurm_resilience.node.settings import (
    DiskExpectation,
    Expectations,
    LinkExpectation,
    NodeSettings,
)

RECORDED = Path(__file__).parents[1] / "facts"

SETTINGS = NodeSettings(
    expect=Expectations(
        gpus=2,
        links={"mlx5_0:1": LinkExpectation(rate_gbps=400), "eth0": LinkExpectation()},
        disks={"/tmp": DiskExpectation(), "/scratch": DiskExpectation(mounted=True)},
        memory_mib=1_000_000,
    )
)

FINDINGS: dict[str, list[str]] = {
    "h100_healthy": [],
    "h100_row_remap_failed": ["drain row-remap-failed gpu1"],
    "h100_row_remap_pending": ["drain-when-idle row-remap-pending gpu1"],
    "h100_ecc_uncorrected": ["drain-when-idle ecc-uncorrected gpu1"],
    "h100_ecc_aggregate_only": ["warn ecc-uncorrected-lifetime gpu1"],
    "h100_gpu_lost": ["drain gpu-lost gpu1"],
    "h100_gpu_lost_after_its_handle": ["drain gpu-lost gpu1"],
    "h100_gpu_missing": ["drain gpu-missing node"],
    "h100_answers_nothing": ["drain gpu-lost gpu1", "unknown unread gpu1"],
    "h100_one_value_unread": ["unknown unread gpu1"],
    "h100_reset_required": [
        "drain-when-idle reset-required gpu1",
        "drain-when-idle recovery-action gpu1",
    ],
    "h100_reboot_asked": ["drain recovery-action gpu1"],
    "v100_healthy": [],
    "v100_retired_pages_pending": ["drain-when-idle retired-pages-pending gpu1"],
    "geforce_healthy": [],
    "driver_library_mismatch": ["drain driver-library-mismatch node"],
    "driver_not_loaded": ["drain driver-not-loaded node"],
    "nvml_unknown_error_in_container": ["unknown nvml-unavailable node"],
    "nvml_hung": ["unknown probe-hung nvml"],
    "nvml_hung_and_tasks_stuck": [
        "drain-when-idle driver-hung node",
        "warn hung-task cache_mgr_event",
        "unknown probe-hung nvml",
        "ok xid 0000:61:00.0",
    ],
    "kernel_log_unread": ["unknown unread kernel_log"],
    "ib_port_polling": ["drain link-down mlx5_0:1"],
    "ib_port_waits_for_subnet_manager": ["warn link-down mlx5_0:1"],
    "ib_port_slow": ["drain-when-idle link-slow mlx5_0:1"],
    "ib_adapter_gone": ["drain link-down mlx5_0:1"],
    "ethernet_without_carrier": ["drain link-down eth0"],
    "disk_read_only": ["drain disk-read-only /tmp"],
    "disk_full": ["drain-when-idle disk-full /tmp"],
    "disk_inodes_nearly_used_up": ["warn disk-full /tmp"],
    "disk_not_mounted": ["drain disk-missing /scratch"],
    "disk_missing": ["drain disk-missing /scratch"],
    "disk_hung": ["unknown probe-hung disk:/scratch"],
    "memory_uncorrected": ["drain-when-idle memory-uncorrected node"],
    "memory_missing": ["drain-when-idle memory-missing node"],
    "xid_79_and_gpu_gone": ["drain gpu-missing node", "drain xid 0000:2b:00.0"],
    "xid_13_storm": ["ok xid gpu0"],
}


def told(name: str, settings: NodeSettings) -> list[str]:
    facts = from_json((RECORDED / f"{name}.json").read_bytes())
    return [f"{one.severity.value} {one.check} {one.subject}" for one in judge(facts, settings)]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_facts_get_their_findings(path: Path) -> None:
    """Each recording, of a fault or of none, is judged as its row says."""
    assert told(path.stem, SETTINGS) == FINDINGS[path.stem]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_facts_survive_a_round_trip(path: Path) -> None:
    """What `facts --json` writes is what `check --facts` reads."""
    facts = from_json(path.read_bytes())

    assert from_json(to_json(facts)) == facts


def test_facts_with_an_unknown_field_are_refused() -> None:
    """A recording of another version must not be judged as if a field were not there."""
    text = b'{"node": "n1", "gpus": [{"index": 0, "remap_broken": true}]}'

    with pytest.raises(msgspec.ValidationError, match="remap_broken"):
        from_json(text)


def test_every_rule_is_named_after_its_check() -> None:
    """A rule and a row: the function's name, with dashes, stands in the table of checks."""
    names = [rule.__name__.replace("_", "-") for rule in RULES]

    assert sorted([*names, "leftover-process"]) == sorted(CHECKS)


@pytest.mark.parametrize(
    "name",
    ["geforce_healthy", "driver_not_loaded", "ethernet_without_carrier", "h100_gpu_missing"],
)
def test_what_is_not_expected_is_not_missed(name: str) -> None:
    """Out of the box a node is judged by its faults, not by a guess at what it should have."""
    assert not [one for one in told(name, NodeSettings()) if not one.startswith("ok ")]


def test_a_check_can_be_switched_off_or_softened() -> None:
    """A site decides about a check by its id; the rest stays."""
    off = msgspec.structs.replace(SETTINGS, checks={"row-remap-failed": "off"})
    softer = msgspec.structs.replace(SETTINGS, checks={"row-remap-failed": "warn"})

    assert told("h100_row_remap_failed", off) == []
    assert told("h100_row_remap_failed", softer) == ["warn row-remap-failed gpu1"]


def test_severity_is_ordered_as_it_is_written() -> None:
    """ok < unknown < warn < drain-when-idle < drain."""
    names = [severity.value for severity in sorted(Severity)]

    assert names == ["ok", "unknown", "warn", "drain-when-idle", "drain"]
    assert worst([]) is Severity.OK
