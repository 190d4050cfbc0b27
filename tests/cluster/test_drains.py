"""What an administrator does with our drains, and with other people's."""

import json
from typing import Any

import pytest

from testbed import Cluster

pytestmark = pytest.mark.cluster

OURS = "slurm-resilience: row-remap-failed gpu3: no spare row is left [boot 1a2b3c4d]"


def node(cluster: Cluster, *words: str, status: int = 0) -> str:
    done = cluster.run(["slurm-resilience", "node", *words], user="root", check=False)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_our_drain_is_listed_explained_and_lifted(cluster: Cluster) -> None:
    """From `sinfo -R` to a node that works again, with no other tool."""
    cluster.run(
        ["scontrol", "update", "nodename=n2", "state=drain", f"reason={OURS}"], user="root"
    )

    assert node(cluster, "list") == f"n2 IDLE+DRAIN {OURS}\n"
    assert "row-remap-failed: no spare row is left; the GPU needs" in node(
        cluster, "explain", "n2"
    )
    assert "n2 given back" in node(cluster, "resume", "n2")
    assert "DRAIN" not in cluster.node_state("n2")
    assert node(cluster, "list") == "no node is drained by slurm-resilience\n"


def test_a_drain_of_somebody_else_is_left_alone(cluster: Cluster) -> None:
    """Shown, neither overwritten nor lifted."""
    node(cluster, "drain", "n3", "fan is loud")

    assert "not ours" in node(cluster, "explain", "n3")
    assert "not drained by slurm-resilience (fan is loud)" in node(
        cluster, "resume", "n3", status=2
    )
    assert "has a reason already, which stays: fan is loud" in node(
        cluster, "drain", "n3", "again", status=2
    )
    assert "DRAIN" in cluster.node_state("n3")
    assert "knows no such node" in node(cluster, "explain", "n77", status=2)


# ── evidence ────────────────────────────────────────────────────────────────────────────────


def on_node(cluster: Cluster, name: str, *words: str) -> str:
    line = ["env", f"SLURMD_NODENAME={name}", "slurm-resilience", *words]
    return cluster.run(line, on=name, user="root", check=False).stdout


def test_the_node_itself_knows_the_evidence(cluster: Cluster) -> None:
    """Elsewhere there is the reason; on the node all that its last hook found."""
    cluster.nodes["n1"].gpu(3).set(remap_failed=1)
    cluster.nodes["n1"].gpu(5).set(remap_pending=1)
    on_node(cluster, "n1", "hook", "health")

    there = json.loads(on_node(cluster, "n1", "node", "explain", "n1", "--json"))
    elsewhere = json.loads(node(cluster, "explain", "n1", "--json"))

    assert (there["whose"], there["check"], there["advice"]) == (
        "ours",
        "row-remap-failed",
        "repair",
    )
    assert {one["check"] for one in there["evidence"]} >= {
        "row-remap-failed",
        "row-remap-pending",
    }
    assert there["seen_by"] == "health"
    assert there["since"] == elsewhere["since"]
    assert elsewhere["evidence"] == []
    assert "more is kept on n1, for root to ask there" in node(cluster, "explain", "n1")


def test_a_reason_cannot_speak_to_the_terminal(cluster: Cluster) -> None:
    """Whoever may drain a node may not paint over what an administrator reads."""
    cluster.run(
        ["scontrol", "update", "nodename=n2", "state=drain", "reason=fan\x1b[2Jis\x1b]0;loud"],
        user="root",
    )

    told = node(cluster, "explain", "n2")

    assert "\x1b" not in told
    assert "is" in told


def test_an_old_reason_of_another_version_is_for_a_person(cluster: Cluster) -> None:
    """A check that is not known here is ours all the same; no hook lifts it."""
    old = "slurm-resilience: rows-gone gpu3: no spare row is left [boot 1a2b3c4d]"
    cluster.run(
        ["scontrol", "update", "nodename=n2", "state=drain", f"reason={old}"], user="root"
    )
    cluster.configure("node: {resume_after: 1}")

    on_node(cluster, "n2", "hook", "health")

    assert "DRAIN" in cluster.node_state("n2")
    explained = node(cluster, "explain", "n2")
    assert "a check of another version of slurm-resilience" in explained
    assert "only a person gives it back" in explained
    assert "n2 given back" in node(cluster, "resume", "n2")


# ── the cluster's set-up ────────────────────────────────────────────────────────────────────


def doctor(cluster: Cluster, user: str, *, on: str = "ctl") -> tuple[int, dict[str, Any]]:
    done = cluster.run(["slurm-resilience", "doctor", "--json"], on=on, user=user, check=False)
    return done.returncode, json.loads(done.stdout)


def test_the_doctor_reads_what_slurm_runs_with(cluster: Cluster) -> None:
    """Not a file that may be another: each weakness of this cluster, with its line."""
    status, told = doctor(cluster, "root")

    said = {one["subject"]: (one["level"], one["line"]) for one in told["advice"]}
    assert status == 0
    assert said["KillWait"] == ("should", "KillWait=30")
    assert said["PrologEpilogTimeout"] == ("should", "PrologEpilogTimeout=60")
    assert said["HealthCheckInterval"] == ("should", "HealthCheckInterval=300")
    assert said["ReturnToService"] == ("should", "ReturnToService=1")
    assert said["PrologFlags"][0] == "ok"
    assert said["SchedulerParameters"][0] == "ok"
    assert len([subject for subject in said if subject.endswith("-prolog")]) == 1


def test_the_doctor_serves_everybody(cluster: Cluster) -> None:
    """An ordinary user gets the same, and is told what was not to be seen."""
    status, told = doctor(cluster, "alice")

    assert status == 0
    assert told["root"] is False
    assert "not root" in cluster.run(["slurm-resilience", "doctor"], user="alice").stdout


def test_without_slurm_the_doctor_knows_nothing(cluster: Cluster) -> None:
    """One line, exit 2, and no guess."""
    cluster.configure("slurm: {timeout_s: 1}")
    cluster.controller.freeze("sbin/slurmctld")

    done = cluster.run(["slurm-resilience", "doctor"], user="root", check=False)
    cluster.controller.thaw()

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
