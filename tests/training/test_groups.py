"""Who shares a directory: found out by trying, with a fault told by all ranks."""

import time
from pathlib import Path

import pytest

from slurm_resilience.training.nodes import groups_of
from tests.training import group_jobs
from tests.training.ranks import on_ranks

RANKS = 20_000


@pytest.mark.parametrize("per_node", [False, True])
def test_a_probe_that_cannot_be_deleted_is_said_by_all_ranks(
    tmp_path: Path, *, per_node: bool
) -> None:
    """None waits for the one whose disk fails: the same error on both, with the place in it."""
    said = on_ranks(
        group_jobs.probe_stays, tmp_path / "c", per_node, world_size=2, folder=tmp_path / "b"
    )

    assert said[0] == said[1]
    assert said[0].startswith("CheckpointSaveError: ")
    assert f"{tmp_path / 'c'}: cannot write there: Input/output error" in said[0]


def test_a_directory_that_is_another_to_one_rank_is_said_by_all(tmp_path: Path) -> None:
    """One finds the file of the other, which does not find its."""
    said = on_ranks(
        group_jobs.sees_another, tmp_path / "c", world_size=2, folder=tmp_path / "b"
    )

    assert said[0] == said[1]
    assert said[0].startswith("CheckpointPlaceError: rank 0 on ")
    assert "is a different directory to each rank that asks" in said[0]
    assert "(here the files of 0, 1 are seen)" in said[0]


def test_ranks_are_grouped_by_the_first_that_they_see() -> None:
    """In order, whatever the order of the nodes is."""
    assert groups_of([0, 1, 0, 1, 4]) == ((0, 2), (1, 3), (4,))
    assert groups_of([0, 0, 0]) == ((0, 1, 2),)


def test_very_many_ranks_that_share_one_directory_are_grouped_at_once() -> None:
    """Without a look at each pair of them."""
    since = time.monotonic()

    groups = groups_of([0] * RANKS)

    assert groups == (tuple(range(RANKS)),)
    assert time.monotonic() - since < 5.0
