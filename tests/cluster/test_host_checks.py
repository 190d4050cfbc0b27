"""A service that fails on one node of a real cluster, from the drain to the node's return."""

import shutil
from pathlib import Path

import pytest

from testbed import Cluster

pytestmark = pytest.mark.cluster

UNIT = "LoadState=loaded\\nActiveState={}\\nSubState=dead\\n"


def hook(cluster: Cluster, name: str) -> str:
    """Run the health check on one node as slurmd does; what it said."""
    line = ["env", f"SLURMD_NODENAME={name}", "slurm-resilience", "hook", "health"]
    return cluster.run(line, on=name, user="root", check=False).stderr


def say(tools: Path, active: str) -> None:
    """A stand-in service manager."""
    path = tools / "systemctl"
    path.write_text(f"#!/bin/sh\nprintf '{UNIT.format(active)}'\n")
    path.chmod(0o755)


def test_a_failed_service_drains_and_a_started_one_gives_back(cluster: Cluster) -> None:
    """By the health check alone, with a reason that says what is down."""
    tools = cluster.nodes["n1"].kept / "tools"
    tools.mkdir()
    cluster.configure(
        "paths: {tools: [/var/lib/slurm-resilience/tools]}\n"
        "node: {expect: {services: [nvidia-fabricmanager]}, grace_s: 0, resume_after: 1}\n"
    )
    say(tools, "failed")
    said = hook(cluster, "n1")

    reason = cluster.run(["scontrol", "show", "node", "n1"], user="root").stdout
    assert "DRAIN" in cluster.node_state("n1"), said
    assert "slurm-resilience: service-down nvidia-fabricmanager: is failed" in reason

    shutil.rmtree(tools)
    told = hook(cluster, "n1")
    assert "systemctl is not installed" in told
    assert "DRAIN" in cluster.node_state("n1")

    tools.mkdir()
    say(tools, "active")
    hook(cluster, "n1")
    assert "DRAIN" not in cluster.node_state("n1")
