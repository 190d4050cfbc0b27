"""The hooks on a real Slurm: who is drained, with which reason, and who is left alone."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testbed import Cluster

pytestmark = pytest.mark.cluster

SHARE = Path(sys.prefix) / "share" / "slurm-resilience"
ADMIN = "swap DIMM 4, ask Ann"
SLEEP = "#!/bin/sh\nsleep 300\n"


def reason(cluster: Cluster, node: str) -> str:
    """The node's reason without Slurm's stamp; empty where it has none."""
    return cluster.node(node).get("Reason", "").rpartition(" [")[0]


def hook(cluster: Cluster, node: str, name: str) -> int:
    """Run a hook on a node as slurmd would, for a job on all its GPUs; its exit status."""
    return run_hook(cluster, node, name).returncode


def run_hook(cluster: Cluster, node: str, name: str) -> "subprocess.CompletedProcess[str]":
    """The same, with what it says."""
    folder = "epilog" if name == "epilog" else "prolog"
    environment = [f"SLURMD_NODENAME={node}", "SLURM_JOB_GPUS=0-7", "SLURM_JOB_ID=999999"]
    command = ["env", "-i", *environment, f"{SHARE}/{folder}/slurm-resilience-{name}"]
    return cluster.run(command, on=node, user="root", check=False)


def drain(cluster: Cluster, node: str, why: str) -> None:
    cluster.run(
        ["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={why}"], user="root"
    )


def resume(cluster: Cluster, node: str) -> None:
    cluster.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"], user="root")


def is_drained(cluster: Cluster, node: str) -> bool:
    return "DRAIN" in cluster.node_state(node)


def test_the_prolog_drains_a_faulty_node_with_our_reason(cluster: Cluster) -> None:
    """The job goes back to the queue, and an administrator reads what to replace."""
    cluster.nodes["n1"].gpu(3).set(remap_failed=1)

    job = cluster.sbatch(["--nodelist=n1", "--gpus-per-node=8"], stdin=SLEEP)
    cluster.wait_for(lambda: is_drained(cluster, "n1"), describe="n1 drained")

    boot = cluster.run(["cat", "/proc/sys/kernel/random/boot_id"], on="n1").stdout[:8]
    uuid = cluster.nodes["n1"].gpu(3).state.uuid
    assert reason(cluster, "n1") == (
        f"slurm-resilience: row-remap-failed gpu3: needs replacing ({uuid}); repair [boot {boot}]"
    )
    assert cluster.wait_for_job(job, "PENDING")["Restarts"] == "1"


def test_another_jobs_gpu_does_not_stop_a_job(cluster: Cluster) -> None:
    """A job that was given healthy GPUs of a node starts there."""
    cluster.nodes["n1"].gpu(7).set(remap_failed=1)

    job = cluster.sbatch(["--nodelist=n1", "--gpus-per-node=2"], stdin=SLEEP)

    cluster.wait_for_job(job, "RUNNING")
    assert not is_drained(cluster, "n1")


def running(cluster: Cluster, node: str) -> str:
    """A job on all GPUs of *node* that has got past its prolog."""
    started = cluster.home("alice") / "started"
    script = SLEEP.replace("sleep", f"touch {started}\nsleep")
    job = cluster.sbatch([f"--nodelist={node}", "--gpus-per-node=8"], stdin=script)
    cluster.wait_for(started.exists, describe="the job past its prolog")
    return job


def test_a_fault_that_can_wait_ends_no_job(cluster: Cluster) -> None:
    """The node takes nothing new at once; what runs there runs to its end."""
    job = running(cluster, "n2")
    cluster.nodes["n2"].gpu(0).set(remap_pending=1)

    assert hook(cluster, "n2", "health") == 0

    assert is_drained(cluster, "n2")
    assert reason(cluster, "n2").startswith("slurm-resilience: row-remap-pending gpu0: ")
    assert cluster.job(job)["JobState"] == "RUNNING"
    assert cluster.job(job)["Restarts"] == "0"
    cluster.run(["scancel", job])
    cluster.wait_for(lambda: cluster.node_state("n2") == "IDLE+DRAIN", describe="n2 empty")


def test_the_epilog_drains_for_what_the_job_left_behind(cluster: Cluster) -> None:
    """A fault that comes while a job runs lets it run, and keeps the next one away."""
    job = running(cluster, "n2")
    cluster.nodes["n2"].gpu(0).set(remap_pending=1)

    cluster.run(["scancel", job])

    cluster.wait_for(lambda: is_drained(cluster, "n2"), describe="n2 drained")
    assert reason(cluster, "n2").startswith("slurm-resilience: row-remap-pending gpu0: ")


def test_what_an_administrator_drained_stays_as_it_is(cluster: Cluster) -> None:
    """State and reason, through every hook, whether the node is fit or not."""
    drain(cluster, "n3", ADMIN)

    for remap_failed, status in ((0, 0), (1, 1)):
        cluster.nodes["n3"].gpu(0).set(remap_failed=remap_failed)
        for name in ("health", "prolog", "epilog"):
            assert hook(cluster, "n3", name) == (status if name == "prolog" else 0)
            assert is_drained(cluster, "n3")
            assert reason(cluster, "n3") == ADMIN


def test_the_health_check_gives_back_what_it_drained(cluster: Cluster) -> None:
    """After three clean passes, not before."""
    cluster.nodes["n4"].gpu(5).set(remap_pending=1)
    hook(cluster, "n4", "health")
    assert reason(cluster, "n4").startswith("slurm-resilience: row-remap-pending gpu5: ")

    cluster.nodes["n4"].gpu(5).set(remap_pending=0)  # it was reset
    hook(cluster, "n4", "health")  # slurmd may add one of its own here
    assert is_drained(cluster, "n4")

    hook(cluster, "n4", "health")
    hook(cluster, "n4", "health")
    assert not is_drained(cluster, "n4")


def test_an_administrators_word_settles_an_xid(cluster: Cluster) -> None:
    """Who resumes the node by hand is not overruled by the same old line of the kernel log."""
    node = cluster.nodes["n4"]
    node.kmsg("NVRM: Xid (PCI:0000:1b:00): 95, pid=7, name=p, Uncontained ECC error")
    hook(cluster, "n4", "health")
    assert reason(cluster, "n4").startswith("slurm-resilience: xid gpu0: Xid 95 ")

    resume(cluster, "n4")
    for name, times in (("prolog", 1), ("prolog", 0), ("health", 0)):
        done = run_hook(cluster, "n4", name)
        assert done.returncode == 0
        assert (
            done.stderr.count("settled, as the node was given back by hand: xid gpu0") == times
        )
    assert not is_drained(cluster, "n4")

    node.kmsg("NVRM: Xid (PCI:0000:1b:00): 95, pid=8, name=p, Uncontained ECC error")
    hook(cluster, "n4", "health")
    assert is_drained(cluster, "n4")


def test_a_hook_leaves_alone_what_slurm_does_not_tell(cluster: Cluster) -> None:
    """With the link down nothing is known, so nothing is changed; the job is still stopped."""
    cluster.nodes["n2"].gpu(0).set(remap_failed=1)
    drain(cluster, "n2", ADMIN)
    cluster.configure("node: {budgets: {slurm_s: 1}}")
    cluster.nodes["n2"].link_down()

    assert hook(cluster, "n2", "prolog") == 1
    assert hook(cluster, "n2", "health") == 0

    cluster.nodes["n2"].link_up()
    assert reason(cluster, "n2") == ADMIN


# ── how many at once ────────────────────────────────────────────────────────────────────────


def drained(cluster: Cluster) -> set[str]:
    return {node for node in cluster.nodes if is_drained(cluster, node)}


def on_all_nodes(cluster: Cluster, name: str) -> dict[str, int]:
    """Run a hook on all nodes in the same moment; the exit status of each."""
    with ThreadPoolExecutor(len(cluster.nodes)) as pool:
        statuses = pool.map(lambda node: hook(cluster, node, name), cluster.nodes)
        return dict(zip(cluster.nodes, statuses, strict=True))


@pytest.mark.parametrize("name", ["health", "prolog"])
def test_one_fault_everywhere_leaves_half_the_nodes(cluster: Cluster, name: str) -> None:
    """All look at once, see room and drain; who was one too many takes it back and works on."""
    for node in cluster.nodes.values():
        node.gpu(3).set(remap_failed=1)

    first = on_all_nodes(cluster, name)
    left = drained(cluster)
    again = on_all_nodes(cluster, name)

    assert len(left) == 2
    assert drained(cluster) == left
    if name == "prolog":
        wanted = {node: int(node in left) for node in cluster.nodes}
        assert first == wanted
        assert again == wanted


def test_a_hundred_percent_is_no_limit(cluster: Cluster) -> None:
    """Who wants every faulty node out says so."""
    cluster.configure("node: {drains: {most_percent: 100}}")
    for node in cluster.nodes.values():
        node.gpu(3).set(remap_failed=1)

    on_all_nodes(cluster, "health")

    assert drained(cluster) == set(cluster.nodes)


def test_what_others_drained_does_not_count(cluster: Cluster) -> None:
    """An administrator who takes half the cluster out has not used up our share."""
    for node in ("n1", "n2", "n3"):
        drain(cluster, node, ADMIN)
    cluster.nodes["n4"].gpu(3).set(remap_failed=1)

    hook(cluster, "n4", "health")

    assert is_drained(cluster, "n4")


# ── on the way down ─────────────────────────────────────────────────────────────────────────


def test_a_node_that_slurm_reboots_is_left_to_it(machine: int) -> None:
    """Its drain and reason are the administrator's; ours is neither lifted nor rewritten meanwhile."""
    reboots = {"RebootProgram": "/bin/true"}
    with Cluster.up(nodes=2, gpus=8, instance=machine + 310, slurm_conf=reboots) as cluster:
        cluster.configure("node: {resume_after: 1}")
        running(cluster, "n1")
        running(cluster, "n2")
        cluster.run(["scontrol", "reboot", "n1"], user="root")
        cluster.nodes["n1"].gpu(3).set(remap_pending=1)
        cluster.nodes["n2"].gpu(3).set(remap_pending=1)

        hook(cluster, "n1", "health")
        assert reason(cluster, "n1").lower().startswith("reboot")

        hook(cluster, "n2", "health")
        ours = reason(cluster, "n2")
        assert ours.startswith("slurm-resilience: row-remap-pending gpu3: ")
        cluster.run(["scontrol", "reboot", "ASAP", "n2"], user="root")
        cluster.nodes["n2"].gpu(3).set(remap_pending=0)
        hook(cluster, "n2", "health")
        assert is_drained(cluster, "n2")
        assert reason(cluster, "n2").startswith(ours)


# ── what a kind of node has ─────────────────────────────────────────────────────────────────


def test_a_profile_that_one_node_taught_serves_its_kind(cluster: Cluster) -> None:
    """Learnt by command on a good node, it goes into the one file of all; each hook takes its own."""
    learn = ["env", "SLURMD_NODENAME=n1", "slurm-resilience", "facts", "--learn", "--nodes"]
    learnt = cluster.run([*learn, "n[1-3]"], on="n1", user="root").stdout
    assert "gpus: 8" in learnt
    cluster.configure(learnt.replace("profiles:", "profiles:\n    n4:\n      gpus: 9"))

    assert [hook(cluster, name, "prolog") for name in cluster.nodes] == [0, 0, 0, 1]
    assert reason(cluster, "n4").startswith("slurm-resilience: gpu-missing node: 8 of 9 GPUs")


def test_a_faulty_node_teaches_nothing(cluster: Cluster) -> None:
    """Its fault would be what all others are measured by."""
    cluster.nodes["n1"].gpu(3).set(remap_failed=1)

    done = cluster.run(
        ["slurm-resilience", "facts", "--learn"], on="n1", user="root", check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "n1 is unfit, learn on a good node: row-remap-failed gpu3" in done.stderr


# ── again and again ─────────────────────────────────────────────────────────────────────────


def test_a_fault_that_keeps_coming_back_needs_a_person(cluster: Cluster) -> None:
    """Reset, then reboot, then a new part, and no more lifting by itself: over every reset."""
    cluster.configure("node: {resume_after: 1}")
    gpu = cluster.nodes["n1"].gpu(5)
    for ending in (
        "; reset [",
        "; 2nd time in 30 days, reboot [",
        "; 3rd time in 30 days, replace [",
    ):
        gpu.set(remap_pending=1)
        hook(cluster, "n1", "health")
        assert ending in reason(cluster, "n1")
        gpu.set(remap_pending=0)
        hook(cluster, "n1", "health")

    assert is_drained(cluster, "n1")
    explained = cluster.run(
        ["env", "SLURMD_NODENAME=n1", "slurm-resilience", "node", "explain", "n1"],
        on="n1",
        user="root",
    ).stdout
    assert "what to do: 3rd time in 30 days, replace" in explained
    assert "only a person gives it back" in explained


def test_a_reboot_gives_a_node_back_and_is_remembered(cluster: Cluster) -> None:
    """The Xid went with the boot, so the node works again; its next one is the second time."""
    cluster.configure("node: {resume_after: 1}")
    node = cluster.nodes["n1"]
    for ending in ("; reset [", "; 2nd time in 30 days, reboot ["):
        node.kmsg("NVRM: Xid (PCI:0000:1b:00): 95, pid=7, name=p, Uncontained ECC error")
        hook(cluster, "n1", "health")
        assert reason(cluster, "n1").startswith("slurm-resilience: xid gpu0: Xid 95 ")
        assert ending in reason(cluster, "n1")
        hook(cluster, "n1", "health")
        assert is_drained(cluster, "n1")

        node.power_off()
        node.power_on()

        # slurmd runs the health check before it registers.
        cluster.wait_for(lambda: cluster.node_state("n1") == "IDLE", describe="n1 given back")


def test_what_needs_a_repair_waits_for_a_person(cluster: Cluster) -> None:
    """A card without spare rows answers well enough after a reset; it is given back by hand."""
    cluster.configure("node: {resume_after: 1}")
    cluster.nodes["n1"].gpu(5).set(remap_failed=1)
    hook(cluster, "n1", "health")
    cluster.nodes["n1"].gpu(5).set(remap_failed=0)

    hook(cluster, "n1", "health")

    assert is_drained(cluster, "n1")
