"""What an administrator does with our drains, and with other people's."""

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
