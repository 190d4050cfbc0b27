"""Copies of parts: what a node that took another's place goes on from."""

import importlib.util
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.quarantine import put_aside
from slurm_resilience.cli import main
from tests.missing import missing
from tests.training import node_jobs
from tests.training.ranks import on_ranks
from tests.training.seen import steps_saved


@pytest.fixture
def copies(tmp_path: Path) -> str:
    """Where copies go."""
    if not importlib.util.find_spec("fsspec"):
        missing("fsspec is not installed")
    (tmp_path / "bucket").mkdir()
    return f"file://{tmp_path / 'bucket'}"


def test_a_node_in_place_of_another_gets_its_part_from_the_copies(
    tmp_path: Path, nodes: list[Path], copies: str
) -> None:
    """The node that has its part keeps it; the new one fetches what the lost one had."""
    on_ranks(node_jobs.save, nodes[:2], 1, copies, world_size=4, folder=tmp_path / "b")
    swapped = [nodes[0], nodes[2]]

    said = on_ranks(node_jobs.restore, swapped, "", copies, world_size=4, folder=tmp_path / "b")

    assert said == ["start 1 level 0"] * 4
    assert [steps_saved(node / "c") for node in swapped] == [[0]] * 2
    assert not put_aside(nodes[0] / "c")


def test_all_nodes_in_other_places_get_their_parts_from_the_copies(
    tmp_path: Path, nodes: list[Path], copies: str
) -> None:
    """Nodes in another order too: what they hold goes into quarantine, for the copies' sake."""
    on_ranks(node_jobs.save, nodes[:2], 1, copies, world_size=4, folder=tmp_path / "b")
    others = nodes[1::-1]

    said = on_ranks(node_jobs.restore, others, "", copies, world_size=4, folder=tmp_path / "b")

    assert said == ["start 1 level 0"] * 4
    assert all(len(put_aside(node / "c")) == 1 for node in others)


def test_a_damaged_copy_of_a_part_is_refused(
    tmp_path: Path, nodes: list[Path], copies: str
) -> None:
    """By all ranks, naming it."""
    on_ranks(node_jobs.save, nodes[:2], 1, copies, world_size=4, folder=tmp_path / "b")
    file = next((tmp_path / "bucket" / "part-00002").glob("step-*/rank-00002.tensors"))
    with file.open("r+b") as content:
        content.write(b"?")
    swapped = [nodes[0], nodes[2]]

    said = on_ranks(node_jobs.restore, swapped, "", copies, world_size=4, folder=tmp_path / "b")

    assert all(line.startswith("CheckpointCopyError: ") for line in said)
    assert all("rank-00002.tensors is damaged" in line for line in said)


def test_where_a_copy_of_a_part_is_damaged_the_copies_before_are_fetched(
    tmp_path: Path, nodes: list[Path], copies: str
) -> None:
    """By all ranks, the parts of one step."""
    on_ranks(node_jobs.save, nodes[:2], 2, world_size=4, folder=tmp_path / "b")
    for node, part in zip(nodes, ("part-00000", "part-00002"), strict=False):
        for checkpoint in sorted((node / "c").glob("step-*")):
            assert main(["checkpoint", "copy", str(checkpoint), f"{copies}/{part}"]) == 0
    newest = max((tmp_path / "bucket" / "part-00002").glob("step-*"))
    with (newest / "rank-00002.tensors").open("r+b") as content:
        content.write(b"?")
    swapped = [nodes[0], nodes[2]]

    said = on_ranks(node_jobs.restore, swapped, "", copies, world_size=4, folder=tmp_path / "b")

    assert said == ["start 1 level 0"] * 4
