"""`diagnose --job` on jobs that a real Slurm ran, as their owner asks on the login node."""

import json
import os

import pytest

from slurm_resilience.incident import Incident, Suspect
from slurm_resilience.run_directory import write_incident
from testbed import Cluster

pytestmark = pytest.mark.cluster

ALICE = 61001


def diagnosed(cluster: Cluster, job: str, *words: str) -> dict[str, object]:
    done = cluster.run(["slurm-resilience", "diagnose", "--json", "--job", job, *words])
    told: dict[str, object] = json.loads(done.stdout)
    return told


def test_a_program_that_raised_is_told_from_its_output(cluster: Cluster) -> None:
    """Slurm says no more than FAILED; the output lies where Slurm was told to put it."""
    script = "import sys; sys.stderr.write(open('/nowhere').read())"
    job = cluster.sbatch(["--output=%x-%j.txt", "--wrap", f'srun python3 -c "{script}"'])
    cluster.wait_for_job(job, "FAILED")

    told = diagnosed(cluster, job)

    assert (told["class"], told["retry"]) == ("user-error", "stop")
    assert "FileNotFoundError" in str(told["advice"])


def test_what_our_watchers_left_decides(cluster: Cluster) -> None:
    """The incident in the run directory that the job's Comment names."""
    job = cluster.sbatch(["--comment=slurm-resilience", "--wrap", "exit 1"])
    cluster.wait_for_job(job, "FAILED")
    directory = cluster.home("alice") / "slurm-resilience" / job
    write_incident(
        directory,
        Incident(job, 0, "stall", "hardware", "rank-stopped", "rank 1 on n2 is stopped",
                 "exclude-node", 0.0, (Suspect("n2", "stopped", 1),)),
    )  # fmt: skip
    for path in (directory.parent, directory, *directory.rglob("*")):
        os.chown(path, ALICE, ALICE)

    told = diagnosed(cluster, job)

    assert (told["cause"], told["retry"]) == ("rank-stopped", "exclude-node")


def test_a_job_that_said_nothing_is_unknown(cluster: Cluster) -> None:
    """A run directory without a log in it is no fault."""
    job = cluster.sbatch(["--comment=slurm-resilience", "--wrap", "exit 1"])
    cluster.wait_for_job(job, "FAILED")
    cluster.run(["mkdir", "-p", f"slurm-resilience/{job}/attempt-0"])

    assert diagnosed(cluster, job)["class"] == "unknown"


def test_a_cancelled_job_is_not_blamed_on_its_last_words(cluster: Cluster) -> None:
    """Slurm's record outranks what ranks say while they are ended."""
    job = cluster.sbatch(["--wrap", "echo RuntimeError: Connection reset by peer; sleep 600"])
    cluster.wait_for_job(job, "RUNNING")
    cluster.run(["scancel", job])
    cluster.wait_for_job(job, "CANCELLED")

    assert diagnosed(cluster, job)["class"] == "cancelled"


def test_a_node_that_lost_power_is_named(cluster: Cluster) -> None:
    """Nothing is left but Slurm's record."""
    job = cluster.sbatch(["--no-requeue", "--nodelist=n2", "--wrap", "sleep 600"])
    cluster.wait_for_job(job, "RUNNING")
    cluster.nodes["n2"].power_off()
    cluster.wait_for_job(job, "NODE_FAIL", timeout_s=120)

    told = diagnosed(cluster, job)

    assert (told["class"], told["retry"]) == ("hardware", "exclude-node")
    assert [one["node"] for one in told["suspects"]] == ["n2"]  # type: ignore[attr-defined]


def test_a_job_that_nobody_knows_is_one_line(cluster: Cluster) -> None:
    """With what to do."""
    done = cluster.run(["slurm-resilience", "diagnose", "--job", "999"], check=False)

    assert done.returncode == 2
    assert done.stderr.strip().endswith("job 999: Slurm knows it no more; give its log")
