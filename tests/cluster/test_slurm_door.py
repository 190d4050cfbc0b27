"""What the door promises, asked of a real Slurm."""

import time
from pathlib import Path

import pytest

from slurm_resilience.errors import SlurmError, SlurmSilentError
from slurm_resilience.slurm.door import Slurm
from slurm_resilience.slurm.values import Job
from testbed import Cluster
from tests.cluster.doors import commands
from tests.cluster.waiting import next_second

pytestmark = pytest.mark.cluster

ALICE = 61001


@pytest.fixture
def slurm(cluster: Cluster, tmp_path: Path) -> Slurm:
    return commands(cluster, tmp_path)


def submit(cluster: Cluster, *options: str) -> str:
    return cluster.sbatch(["--comment=mine", *options, "--wrap=sleep 600"], user="alice")


def wait_for(cluster: Cluster, slurm: Slurm, job: str, *, running: bool) -> Job:
    def there() -> Job | None:
        known = slurm.job(job)
        return known if known and (known.is_running if running else known.is_pending) else None

    found = cluster.wait_for(there, describe=f"job {job}")
    assert found is not None
    return found


def test_a_job_from_start_to_next_start(cluster: Cluster, slurm: Slurm) -> None:
    """Requeued and held, told which nodes to avoid, released, started: the same job elsewhere."""
    output = "/shared/home/alice/first-%j.out"
    job = submit(cluster, "--nodes=2", "--exclude=n4", f"--output={output}")
    first = wait_for(cluster, slurm, job, running=True)

    slurm.set_comment(job, "mine and yours")
    slurm.requeue(job, hold=True)
    held = wait_for(cluster, slurm, job, running=False)
    slurm.set_excluded(job, ["n4", "n1"])
    slurm.release(job)
    released = slurm.job(job)
    next_second(cluster)
    slurm.start_now(job)
    second = wait_for(cluster, slurm, job, running=True)

    assert (first.restarts, first.nodes, first.nodes_needed) == (0, ("n1", "n2"), 2)
    assert (first.user_id, first.partition, first.comment) == (ALICE, "all", "mine")
    assert first.work_dir == "/shared/home/alice"
    assert output.replace("%j", job) in {one.replace("%j", job) for one in first.outputs}
    assert (held.restarts, held.held, held.reason) == (1, True, "JobHeldUser")
    assert released
    assert released.begins_at
    assert (second.nodes, set(second.excluded)) == (("n2", "n3"), {"n1", "n4"})
    assert second.comment == "mine and yours"
    assert slurm.jobs(user_id=ALICE)
    assert job not in {other.id for other in slurm.jobs(user_id=ALICE + 1)}


def test_array_tasks_go_by_their_own_names(cluster: Cluster, slurm: Slurm) -> None:
    """One task is requeued; the raw id of the last would have meant them all."""
    array = submit(cluster, "--array=0-1", "--nodes=1")
    for task in (0, 1):
        wait_for(cluster, slurm, f"{array}_{task}", running=True)

    slurm.requeue(f"{array}_1", hold=True)

    assert wait_for(cluster, slurm, f"{array}_1", running=False).held
    other = slurm.job(f"{array}_0")
    assert other
    assert (other.is_running, other.restarts) == (True, 0)


def test_a_refusal_carries_slurms_own_words(cluster: Cluster, slurm: Slurm) -> None:
    """In one line, so that a log says why."""
    job = submit(cluster, "--nodes=1")
    wait_for(cluster, slurm, job, running=True)

    with pytest.raises(SlurmError, match="Job is no longer pending execution"):
        slurm.set_excluded(job, ["n1"])
    with pytest.raises(SlurmError, match="Invalid job id specified"):
        slurm.requeue("999999", hold=True)
    assert slurm.job("999999") is None


def test_a_node_is_drained_and_given_back(slurm: Slurm) -> None:
    """With the reason as it was written."""
    slurm.drain("n2", reason='ours: it\'s "broken" = yes')
    (drained,) = slurm.nodes(["n2"])
    slurm.resume("n2")
    (back,) = slurm.nodes(["n2"])

    assert drained.is_drained
    assert drained.reason == 'ours: it\'s "broken" = yes'
    assert "all" in drained.partitions
    assert not back.is_drained
    assert {node.name for node in slurm.nodes()} >= {"n1", "n2", "n3", "n4"}


def test_silence_is_told_from_an_empty_queue(cluster: Cluster, tmp_path: Path) -> None:
    """A slurmctld that does not answer is an error for whoever asks, within our own time."""
    slurm = commands(cluster, tmp_path, timeout_s=1.0)
    slurm.version()
    cluster.controller.freeze("sbin/slurmctld")

    for ask in (slurm.jobs, slurm.nodes):
        with pytest.raises(SlurmSilentError, match="no answer in 1 s"):
            ask()
    cluster.controller.thaw()

    assert slurm.nodes()


def test_the_configuration_is_slurmctlds_own(slurm: Slurm) -> None:
    """As it counts now, defaults and all."""
    settings = slurm.configuration()

    assert "nohold_on_prolog_fail" in settings["SchedulerParameters"]
    assert settings["Prolog"].endswith("/slurm-resilience-prolog")
    assert settings["SlurmdTimeout"].startswith("10 ")


def test_a_drain_has_its_time(slurm: Slurm) -> None:
    """Since when a node is drained stands with its reason."""
    before = time.time()
    slurm.drain("n3", reason="fan is loud")
    (node,) = slurm.nodes(["n3"])

    assert node.reason_at is not None
    assert before - 2 < node.reason_at < time.time() + 2
