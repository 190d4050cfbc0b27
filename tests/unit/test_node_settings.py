"""The configuration of node health."""

from pathlib import Path

import pytest

from slurm_resilience.config import load, parse
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
        ("node: {checks: {row-remap-faild: off}}", "is it row-remap-failed"),
        (
            "node: {checks: {xid: drian}}",
            "checks: xid: 'drian' is none of off, ok, unknown, warn, ",
        ),
        ("node: {xids: {109: drian}}", "xids: 109: 'drian' is none of off, "),
        ("node: {checks: {xid: 5}}", "checks"),
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


@pytest.mark.parametrize("inside", ["", "/state"], ids=["a file", "below a file"])
def test_what_is_kept_needs_a_folder(tmp_path: Path, inside: str) -> None:
    """Else every hook would forget all, and a node never be given back."""
    (tmp_path / "file").touch()
    config = tmp_path / "config.yaml"
    config.write_text(f"paths: {{state: {tmp_path}/file{inside}}}")

    with pytest.raises(ConfigError, match=r"paths.state: .*/file.* is no folder"):
        load(config)
