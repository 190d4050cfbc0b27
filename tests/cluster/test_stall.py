"""Stalls, exceptions and layouts, as far as the job itself deals with them."""

import os
import signal

import pytest

from testbed import Cluster
from tests.cluster.stepping import Stepping

pytestmark = pytest.mark.cluster


def test_a_frozen_rank_is_found_and_its_node_left(cluster: Cluster) -> None:
    """Under torchrun: the stall is found, stacks are kept, the GPU's error names the node."""
    job = Stepping(cluster, "", "--gpus-per-node=1", launcher="torchrun")
    job.wait_for_step(5)
    node = job.nodes[1]

    cluster.nodes[node].gpu(0).set(ecc_uncorrected=1)
    for pid in cluster.nodes[node].ranks().values():
        os.kill(pid, signal.SIGSTOP)
    job.wait_for_text("STALL")
    job.wait_for_state("PENDING")

    incident = job.incident()
    assert (incident.kind, incident.cause, incident.retry) == (
        "stall",
        "ecc-uncorrected",
        "exclude-node",
    )
    assert [one.node for one in incident.suspects] == [node]
    assert f"gpu0 on {node}: 1 uncorrected ECC error" in incident.reason
    assert f"rank 1 on {node} is stopped (T)" in incident.reason
    assert "in meet" in job.stacks()["rank-0"]
    assert "saved step" not in job.text  # nobody goes on when Slurm continues what was stopped
    cluster.wait_for(lambda: job.shown["ExcNodeList"] == node, 20, "the node excluded")
    job.wait_for_nothing_left()


def test_an_exception_is_not_retried_and_the_log_says_why(cluster: Cluster) -> None:
    """The job fails at once with the command's status; the last lines name the user's line."""
    job = Stepping(cluster, "--raise-at=3")
    job.wait_for_state("FAILED")

    assert job.shown["ExitCode"] == "1:0"
    assert job.incident().retry == "stop"
    last = job.text.splitlines()[-1]
    assert "not tried again" in last
    assert "ValueError: no step 3" in last
    assert "rank.py:" in last


def test_a_wrong_argument_is_not_retried(cluster: Cluster) -> None:
    """Under torchrun too the last line is what the program itself says."""
    job = Stepping(cluster, "--bogus", launcher="torchrun")
    job.wait_for_state("FAILED")

    assert job.shown["Restarts"] == "0"
    assert "1 rank a node: Slurm gave no GPUs" in job.text.splitlines()[0]
    assert job.text.splitlines()[-1].endswith("error: unrecognized arguments: --bogus")


def test_an_agent_has_all_that_the_job_has_on_its_node(cluster: Cluster) -> None:
    """Tasks and GPUs by task are the job's way to ask; the ranks of a node share all of it."""
    shown = "CUDA_VISIBLE_DEVICES SLURM_CPUS_ON_NODE SLURM_CPUS_PER_TASK"
    job = Stepping(
        cluster,
        "--steps=2",
        "--ntasks-per-node=2",
        "--cpus-per-task=2",
        "--gpus-per-task=2",
        launcher=f"""sh -c 'printenv {shown} | xargs echo here:' sh""",
    )
    job.wait_for_state("COMPLETED")

    assert job.text.count("here: 0,1,2,3 4 2") == 2
