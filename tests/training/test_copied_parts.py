"""Copies of parts: each node makes its own, and there is always one that all have made."""

import random
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.copies import copy_newest
from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.checkpoint_files.store import Store
from slurm_resilience.checkpoint_files.thinning import BEGUN, part_folder
from slurm_resilience.cli import main
from tests.training import node_jobs
from tests.training.ranks import on_ranks

STEPS = 8


class Copies:
    """What two nodes, one rank each, copy of the same saves."""

    def __init__(self, base: Path, nodes: list[Path]) -> None:
        self.base = base
        self._nodes = nodes

    def make(self, rank: int, step: int, *, keep: int) -> None:
        """The copy of one part."""
        part = self._nodes[rank] / "c" / directory_name(step)
        assert copy_newest(part, self._store(rank), keep=keep)

    def cut_off(self, rank: int, step: int) -> Path:
        """A copy of which the manifest is not there; where it lies."""
        name = f"{directory_name(step)}-0badcafe"
        self._store(rank).write(f"{name}/index.json", iter([b"half"]))
        return self.base / part_folder(rank) / name

    def steps(self, rank: int) -> list[int]:
        """Of whole copies of the parts of a node."""
        there = (self.base / part_folder(rank)).glob("step-*/manifest.json")
        return sorted(int(path.parent.name.split("-")[1]) for path in there)

    def common(self) -> set[int]:
        """Of which there are both parts."""
        return set(self.steps(0)) & set(self.steps(1))

    def _store(self, rank: int) -> Store:
        return Store(f"file://{self.base}/{part_folder(rank)}")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Both hold their parts of the same saves."""
    folder = tmp_path_factory.mktemp("nodes")
    disks = [folder / "n0", folder / "n1"]
    for disk in disks:
        disk.mkdir()
    on_ranks(node_jobs.save, disks, STEPS, None, STEPS, world_size=2, folder=folder / "b")
    return disks


@pytest.fixture
def copies(nodes: list[Path], tmp_path: Path) -> Copies:
    """None was made yet."""
    return Copies(tmp_path / "bucket", nodes)


@pytest.mark.parametrize("keep", [1, 2])
def test_what_all_nodes_have_copied_stays_until_all_have_copied_a_newer_one(
    copies: Copies, keep: int
) -> None:
    """One node is far ahead, then one has failed now and again."""
    for rank in (0, 1):
        copies.make(rank, 0, keep=keep)
    for step in (1, 2, 3):
        copies.make(0, step, keep=keep)
    assert copies.common() == {0}

    copies.make(1, 3, keep=keep)
    copies.make(1, 4, keep=keep)
    copies.make(0, 5, keep=keep)

    assert copies.common() == ({3} if keep == 1 else {0, 3})
    assert copies.steps(0)[-1] == 5
    assert copies.steps(1)[-1] == 4


@pytest.mark.parametrize("seed", range(8))
def test_whatever_nodes_fail_to_copy_the_newest_that_all_have_is_never_lost(
    copies: Copies, seed: int
) -> None:
    """Each is late or fails by chance, and either may be ahead of the other."""
    chance = random.Random(seed)
    todo = [[step for step in range(STEPS) if chance.random() < 0.7] for _ in (0, 1)]
    newest = -1
    while any(todo):
        rank = chance.choice([rank for rank in (0, 1) if todo[rank]])
        copies.make(rank, todo[rank].pop(0), keep=1)

        common = copies.common()
        assert max(common, default=-1) >= newest
        newest = max(common, default=-1)
        assert len(copies.steps(0)) <= 1 + BEGUN + 1


def test_older_parts_of_all_nodes_go(copies: Copies) -> None:
    """As many stay as were asked for; more only while they may be under way."""
    for step in range(STEPS):
        for rank in (1, 0):
            copies.make(rank, step, keep=2)

    assert copies.steps(0) == copies.steps(1) == [STEPS - 2, STEPS - 1]


def test_what_another_node_is_sending_is_left_alone(copies: Copies) -> None:
    """What was cut off is deleted by the node that sent it."""
    under_way = copies.cut_off(1, 1)

    copies.make(0, 2, keep=1)
    assert under_way.exists()
    copies.make(1, 2, keep=1)

    assert not under_way.exists()


def test_parts_that_are_copied_by_hand_lie_where_the_trainings_do(
    nodes: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each node's in a folder of its own, which is said; a node without its part gets it from there."""
    url = f"file://{tmp_path}/bucket"

    for disk in nodes:
        assert main(["checkpoint", "copy", str(disk / "c"), url]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("/")[-2] for line in lines] == [part_folder(0), part_folder(1)]
    assert all(line.startswith(f"{url}/part-") for line in lines)
    assert main(["checkpoint", "copies", url]) == 1
    assert "nodes' parts lie in part-00000, part-00001" in capsys.readouterr().err
    disks = [tmp_path / "n0", tmp_path / "n1"]
    for disk in disks:
        disk.mkdir()
    said = on_ranks(node_jobs.restore, disks, "", url, world_size=2, folder=tmp_path / "b")
    assert said == [f"start {STEPS} level {STEPS - 1}"] * 2


def test_a_part_is_not_copied_among_those_of_another_node(
    nodes: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would be counted and deleted together."""
    own, other = (f"file://{tmp_path}/bucket/{part_folder(rank)}" for rank in (0, 1))

    assert main(["checkpoint", "copy", str(nodes[0] / "c"), other]) == 2
    assert "is for another node's parts" in capsys.readouterr().err
    assert not (tmp_path / "bucket").exists()
    assert main(["checkpoint", "copy", str(nodes[0] / "c"), own]) == 0

    assert capsys.readouterr().out.startswith(f"{own}/step-")


def test_where_no_copy_is_there_either_the_cure_is_not_to_ask_for_copies(
    nodes: list[Path], tmp_path: Path
) -> None:
    """They were asked for."""
    url = f"file://{tmp_path}/bucket"
    disks = [nodes[0], tmp_path / "n1"]
    disks[1].mkdir()

    said = on_ranks(node_jobs.restore, disks, "", url, world_size=2, folder=tmp_path / "b")

    assert all(one.startswith("CheckpointPlaceError: no checkpoint in ") for one in said)
    assert all("and no copy is there; run on the nodes" in one for one in said)
    assert not any("give copies=" in one for one in said)
