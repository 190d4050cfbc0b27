"""GPUs under a real Slurm: which of them a job has, and what a drained node says of them."""

import sys
from pathlib import Path

import pytest

from testbed import Cluster
from testbed.nvml import GPU_IS_LOST

pytestmark = pytest.mark.cluster

SHARE = Path(sys.prefix) / "share" / "slurm-resilience"
SLEEP = "#!/bin/sh\nsleep 300\n"


def reason(cluster: Cluster, node: str) -> str:
    """The node's reason without Slurm's stamp; empty where it has none."""
    return cluster.node(node).get("Reason", "").rpartition(" [")[0]


def hook(cluster: Cluster, node: str, name: str, gpus: str = "0-7") -> int:
    """Run a hook on a node as slurmd would; its exit status."""
    environment = [f"SLURMD_NODENAME={node}", f"SLURM_JOB_GPUS={gpus}", "SLURM_JOB_ID=999999"]
    command = ["env", "-i", *environment, f"{SHARE}/prolog/slurm-resilience-{name}"]
    return cluster.run(command, on=node, user="root", check=False).returncode


def test_slurms_number_is_the_device_files(cluster: Cluster) -> None:
    """NVML counts GPUs by address; a job with /dev/nvidia0 is judged by the GPU behind it."""
    for name, faulty in (("n1", 7), ("n2", 0)):
        first, last = cluster.nodes[name].gpu(0), cluster.nodes[name].gpu(7)
        first.set(minor=7)
        last.set(minor=0)
        cluster.nodes[name].gpu(faulty).set(remap_failed=1)

    stopped = cluster.sbatch(["--nodelist=n1", "--gpus-per-node=1"], stdin=SLEEP)
    started = cluster.sbatch(["--nodelist=n2", "--gpus-per-node=1"], stdin=SLEEP)

    cluster.wait_for_job(started, "RUNNING")
    cluster.wait_for(lambda: "DRAIN" in cluster.node_state("n1"), describe="n1 drained")
    assert reason(cluster, "n1").startswith("slurm-resilience: row-remap-failed gpu7: ")
    assert cluster.wait_for_job(stopped, "PENDING")["Restarts"] == "1"
    assert "DRAIN" not in cluster.node_state("n2")


def test_a_lost_gpu_is_named_in_the_reason(cluster: Cluster) -> None:
    """It tells its UUID no more, and whoever goes to the rack needs it."""
    gpu = cluster.nodes["n3"].gpu(5)
    uuid = gpu.state.uuid
    assert hook(cluster, "n3", "prolog") == 0

    gpu.set(returns={"*": GPU_IS_LOST})
    assert hook(cluster, "n3", "prolog", gpus="0-4") == 0
    assert hook(cluster, "n3", "prolog", gpus="5") == 1

    assert reason(cluster, "n3").startswith("slurm-resilience: gpu-lost gpu5: ")
    assert uuid in reason(cluster, "n3")


def test_a_storm_of_corrected_errors_drains_a_node_that_passes_for_healthy(
    cluster: Cluster,
) -> None:
    """Each error is corrected and no counter is out of bounds: only the rate tells."""
    gpu = cluster.nodes["n4"].gpu(2)
    gpu.set(ecc_corrected=177)
    hook(cluster, "n4", "health")
    assert reason(cluster, "n4") == ""

    gpu.set(ecc_corrected=40_000_000)
    hook(cluster, "n4", "health")

    assert reason(cluster, "n4").startswith("slurm-resilience: ecc-storm gpu2: ")
