"""The plan from what a job of a real Slurm went through."""

import json
import os
import time

import pytest

from slurm_resilience.incident import Incident
from slurm_resilience.run_directory import write_incident
from testbed import Cluster

pytestmark = pytest.mark.cluster

ALICE = 61001
ASKED = ["--params", "7e9", "--gpus-per-node", "8", "--write-gbps", "5", "--json"]


def test_a_job_tells_how_often_it_fails(cluster: Cluster) -> None:
    """Its owner asks on the login node; what it went through stands in its run directory."""
    job = cluster.sbatch(["--comment=slurm-resilience", "--nodes=2", "--wrap", "sleep 600"])
    cluster.wait_for_job(job, "RUNNING")
    directory = cluster.home("alice") / "slurm-resilience" / job
    now = time.time()
    write_incident(
        directory,
        Incident(job, 0, "stall", "hardware", "x", "x", "same-nodes", now + 3600, progressed_at=now),
    )  # fmt: skip
    for path in (directory.parent, directory, *directory.rglob("*")):
        os.chown(path, ALICE, ALICE)

    done = cluster.run(["slurm-resilience", "plan", "--from-job", job, *ASKED])
    unknown = cluster.run(
        ["slurm-resilience", "plan", "--from-job", "999", *ASKED], check=False
    )

    document = json.loads(done.stdout)
    assert document["asked"]["nodes"] == 2
    assert document["plan"]["mtbf_s"]["value"] == pytest.approx(3600, abs=60)
    assert document["plan"]["mtbf_s"]["source"] == "measured: 1 in 1.0 h"
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("slurm-resilience: job 999: Slurm knows it no more")
