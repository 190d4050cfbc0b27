"""The configuration of node health."""

from pathlib import Path

import pytest

from slurm_resilience.config import parse
from slurm_resilience.errors import ConfigError


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), Path("config.yaml"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("node: {chekcs: {}}", "chekcs"),
        ("node: {checks: {row-remap-faild: off}}", "row-remap-faild"),
        ("node: {checks: {row-remap-failed: drian}}", "drian"),
        ("node: {mode: dry-run}", "dry-run"),
        ("node: {expect: {gpus: -1}}", "gpus"),
        ("node: {expect: {links: {eth0: {rate: 100}}}}", "rate"),
        ("node: {thresholds: {disk_full_percent: 101}}", "disk_full_percent"),
        ("node: {budgets: {health_s: 58}}", "health_s"),
        ("node: {checks: {probe-hung: drain}}", "probe-hung"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, named: str) -> None:
    """One line names the file and the key; nothing misspelt stays at its default."""
    said = refusal(text)

    assert "config.yaml" in said
    assert named in said
    assert "\n" not in said


def test_off_may_be_written_as_yaml_reads_it() -> None:
    """YAML 1.1 makes a boolean of the bare word off, which nobody means here."""
    config = parse(b"node: {checks: {xid: off}, xids: {109: off}}", Path("config.yaml"))

    assert config.node.checks == {"xid": "off"}
    assert config.node.xids == {109: "off"}
