"""Disks of nodes, and where copies go."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.store import Store
from tests.training.s3_server import S3, serving


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """One server for all tests; each has a place of its own in its bucket."""
    yield from serving()


@pytest.fixture(params=["s3", "file"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Store:
    """An empty place to copy to."""
    if request.param == "file":
        return Store(f"file://{tmp_path}/copies")
    server: S3 = request.getfixturevalue("s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return Store(f"s3://bucket/{tmp_path.name}-{os.getpid()}")


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    """Three nodes; the third is to take the place of another."""
    disks = [tmp_path / f"n{number}" for number in range(3)]
    for disk in disks:
        disk.mkdir()
    return disks
