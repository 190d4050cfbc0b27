"""What is learnt on a good node, and that it comes back from the configuration as it was."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from slurm_resilience.config import parse, to_yaml
from slurm_resilience.errors import ConfigError
from slurm_resilience.node.facts import LinkFacts, NodeFacts, from_json
from slurm_resilience.node.findings import Severity
from slurm_resilience.node.learning import as_profile, learn
from slurm_resilience.node.plan import plan_of
from slurm_resilience.node.rules import judge
from slurm_resilience.node.settings import (
    DiskExpectation,
    Expectations,
    LinkExpectation,
)

RECORDED = Path(__file__).parents[1] / "facts"


def recorded(name: str) -> NodeFacts:
    return from_json((RECORDED / f"{name}.json").read_bytes())


def test_a_good_node_teaches_its_kind() -> None:
    """Count, links with their rates, mounts, and a little less memory than there is."""
    facts = recorded("h100_healthy")

    found = learn(facts, Expectations(services=("nvidia-fabricmanager",)))

    assert facts.gpus
    assert facts.memory
    assert facts.memory.total_mib
    assert found.gpus == len(facts.gpus)
    assert found.links["mlx5_0:1"] == LinkExpectation(rate_gbps=400)
    assert found.disks["/scratch"] == DiskExpectation(mounted=True)
    assert found.memory_mib == facts.memory.total_mib * 98 // 100
    assert found.services == ("nvidia-fabricmanager",)


@pytest.mark.parametrize("name", ["h100_healthy", "geforce_healthy", "v100_healthy"])
def test_what_was_learnt_fits_the_node_it_was_learnt_on(name: str) -> None:
    """Through the file and back: a good node stays fit under its own profile."""
    facts = recorded(name)
    learnt = learn(facts, Expectations())
    text = to_yaml(as_profile(learnt, f"{facts.node},gpu[001-128]"))

    config = parse(text.encode(), Path("config.yaml")).at(facts.node)

    assert config.node.expect == learnt
    found = judge(facts, config.node)
    assert all(finding.severity < Severity.WARN for finding in found)


@pytest.mark.parametrize(
    "fault", ["h100_gpu_missing", "ib_port_slow", "ib_adapter_gone", "disk_not_mounted"]
)
def test_under_a_learnt_profile_a_fault_shows(fault: str) -> None:
    """What nobody wrote down by hand is missed all the same."""
    good = recorded("h100_healthy")
    profile = parse(
        to_yaml(as_profile(learn(good, Expectations()), "n[1-9]")).encode(), Path("config.yaml")
    )

    found = judge(recorded(fault), profile.at("n1").node)

    assert any(finding.severity >= Severity.DRAIN_WHEN_IDLE for finding in found)


def test_only_links_that_other_nodes_have_are_learnt() -> None:
    """Management ports hang elsewhere on the next node, and `enx…` is one card's own name."""
    up = {"state": "UP", "layer": "Ethernet", "rate_gbps": 1.0}
    links = (
        LinkFacts("mlx5_0:1", state="ACTIVE", rate_gbps=400.0),
        LinkFacts("mlx5_1:1", state="DOWN"),
        LinkFacts("ens1np0", **up),  # type: ignore[arg-type]
        LinkFacts("eno1", rdma=False, **up),  # type: ignore[arg-type]
        LinkFacts("eno2", rdma=False, **up),  # type: ignore[arg-type]
        LinkFacts("enx0c42a1b2c3d4", **up),  # type: ignore[arg-type]
    )
    named = Expectations(links={"eno2": LinkExpectation()})

    found = learn(NodeFacts("n1", links=links), named)

    assert list(found.links) == ["mlx5_0:1", "ens1np0", "eno2"]


def test_gpus_that_differ_teach_nothing_about_each() -> None:
    """Neither of two values is the board's."""
    facts = recorded("h100_healthy")
    assert facts.gpus
    mixed = (replace(facts.gpus[0], ecc_enabled=False), *facts.gpus[1:])

    assert learn(replace(facts, gpus=mixed), Expectations()).ecc is None


PROFILES = b"""
node:
  expect: {gpus: 1}
  profiles:
    "gpu[001-064]": {gpus: 8, links: {"mlx5_0:1": {rate_gbps: 400}}}
    "gpu[001-128]": {gpus: 4, disks: {}}
"""


@pytest.mark.parametrize(
    ("node", "gpus", "asked"),
    [
        ("gpu001", 8, {"kernel_log", "network", "disk:/tmp"}),
        ("gpu128", 4, {"kernel_log"}),
        ("login1", 1, {"kernel_log", "disk:/tmp"}),
        ("gpu1", 1, {"kernel_log", "disk:/tmp"}),
    ],
)
def test_the_first_profile_that_holds_a_node_counts(
    node: str, gpus: int, asked: set[str]
) -> None:
    """For what is expected and for what the hooks go and look at."""
    config = parse(PROFILES, Path("config.yaml")).at(node)

    assert config.node.expect.gpus == gpus
    assert set(plan_of(config)["probes"]["prolog"]) == asked


def test_a_profile_for_no_host_list_is_refused() -> None:
    """Before any hook believes it."""
    with pytest.raises(ConfigError, match=r"config.yaml.*not a host list: 'gpu\[1-'"):
        parse(b'node: {profiles: {"gpu[1-": {gpus: 8}}}', Path("config.yaml"))
