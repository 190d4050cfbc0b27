"""
Notices, cancels and kills on a real Slurm, under both ways in which it tracks processes.

With proctrack/linuxproc a signal to a step reaches every process of it; with proctrack/cgroup
only those that slurmstepd started.
"""

import signal
from collections.abc import Iterator

import pytest

from testbed import Cluster
from testbed.state import FREEZER
from tests.cluster.stepping import Stepping
from tests.missing import missing

pytestmark = pytest.mark.cluster

GRACE_S = 10
"""GraceTime of the testbed's partition."""


@pytest.fixture(scope="module")
def with_cgroups(machine: int) -> Iterator[Cluster]:
    """Two nodes whose slurmd tracks processes by cgroup, as most sites have it."""
    with Cluster.up(
        nodes=2, gpus=1, instance=machine + 200, proctrack="cgroup", hooks=False
    ) as cluster:
        yield cluster


@pytest.fixture(params=["linuxproc", "cgroup"])
def slurm(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "cgroup" and not FREEZER.exists():
        missing("this machine has no cgroup v1 freezer hierarchy")
    name = "cluster" if request.param == "linuxproc" else "with_cgroups"
    cluster: Cluster = request.getfixturevalue(name)
    yield cluster
    cluster.reset()


def test_a_notice_saves_and_the_next_attempt_goes_on(slurm: Cluster) -> None:
    """USR2 to the batch shell, as --signal=B:USR2@N sends it, ends in a saved step."""
    job = Stepping(slurm)
    job.wait_for_step(3)

    slurm.run(["scancel", "--batch", "--signal=USR2", job.id])
    job.start_next_attempt()

    incident = job.incident()
    assert (incident.kind, incident.class_) == ("notice", "time-limit")
    assert incident.saved_step == incident.last_step
    job.wait_for_text(f"rank 0 starts at step {(incident.saved_step or 0) + 1}")
    job.wait_for_text(f"rank 0 knows of step {incident.saved_step}")
    assert job.shown["Comment"].split() == [
        "mine",
        f"slurm-resilience=/shared/home/alice/slurm-resilience/{job.id}",
    ]


def test_a_preempted_job_saves_within_its_grace_and_makes_room(slurm: Cluster) -> None:
    """The urgent job runs before the grace is over; the preempted one is back in the queue."""
    job = Stepping(slurm, "", "--exclusive")
    job.wait_for_step(3)

    urgent = slurm.sbatch(
        ["--partition=urgent", f"--nodes={slurm.spec.nodes}", "--exclusive", "--wrap=sleep 1"]
    )
    slurm.wait_for_job(urgent, "RUNNING", timeout_s=GRACE_S)

    incident = job.incident()
    assert (incident.class_, incident.retry) == ("preemption", "leave")
    assert incident.saved_step == incident.last_step
    assert (job.shown["JobState"], job.shown["Restarts"]) == ("PENDING", "1")


def test_a_cancelled_job_leaves_nothing_and_never_comes_back(slurm: Cluster) -> None:
    """A stopped rank and children in sessions of their own go too; there is no incident."""
    job = Stepping(slurm, "--children=2")
    job.wait_for_step(3)
    job.signal_ranks(job.nodes[1], signal.SIGSTOP)

    slurm.run(["scancel", job.id])
    job.wait_for_state("CANCELLED")
    job.wait_for_nothing_left()

    assert job.shown["Restarts"] == "0"
    assert not (job.directory / "attempt-0" / "incident.json").exists()


def test_without_its_supervisor_a_job_leaves_nothing(slurm: Cluster) -> None:
    """kill -9 of the batch shell: the agents end their ranks."""
    job = Stepping(slurm, "--children=1")
    job.wait_for_step(3)

    job.kill(job.nodes[0], r"bin/slurm-resilience run ")

    job.wait_for_nothing_left()


def test_without_its_agent_no_rank_lives_and_the_node_is_named(slurm: Cluster) -> None:
    """kill -9 of one agent: its ranks end at once, the attempt soon, with the node accused."""
    job = Stepping(slurm, "--children=1")
    job.wait_for_step(3)
    node = job.nodes[1]

    job.kill(node, r"^\S+ -m slurm_resilience agent ")
    job.wait_for_text("requeues itself")

    assert not slurm.nodes[node].pids(r"rank\.py|sleep 3600")
    assert [one.node for one in job.incident().suspects] == [node]
    job.wait_for_state("PENDING")
    job.wait_for_nothing_left()
