"""The test cluster, shared by all tests that need a real Slurm."""

import os
from collections.abc import Iterator

import pytest

from testbed import Cluster, Spec, TestbedError
from testbed.cluster import check_machine
from tests.missing import missing

INSTANCE = int(os.environ.get("TESTBED_INSTANCE", "0"))
"""Set it to run the tests beside a cluster that is in use."""


@pytest.fixture(scope="session")
def machine() -> int:
    """A machine that can host clusters, as the number of the first instance for tests."""
    try:
        check_machine(Spec(instance=INSTANCE))
    except TestbedError as error:
        missing(str(error))
    return INSTANCE


@pytest.fixture(scope="session")
def cluster(machine: int) -> Iterator[Cluster]:
    """Four nodes of eight GPUs with the product's hooks, as after `up` for each test."""
    with Cluster.up(nodes=4, gpus=8, instance=machine) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _reset(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave nothing of one test to the next."""
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").reset()
