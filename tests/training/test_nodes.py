"""Checkpoints on a disk of each node: all parts of one, or an older one; never a mixture."""

import itertools
import json
import random
import shutil
import socket
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.listing import found, problems
from slurm_resilience.checkpoint_files.quarantine import put_aside
from slurm_resilience.cli import main
from slurm_resilience.errors import CheckpointLoadError
from slurm_resilience.training import load
from slurm_resilience.watch.heartbeat import beat_path
from tests.missing import missing
from tests.training import jobs, node_jobs
from tests.training.ranks import Ranks, on_ranks
from tests.training.seen import steps_saved
from tests.training.test_kill import saved_step, wait_for_save

STRIDE = 4
"""Of the steps of a save at which a rank is killed; 1 tries all."""


def test_each_node_holds_a_part_of_its_own_ranks(tmp_path: Path, nodes: list[Path]) -> None:
    """With a manifest that says whose; the same keep-N on all."""
    two = nodes[:2]

    said = on_ranks(node_jobs.save, two, 5, world_size=4, folder=tmp_path / "b")

    assert said == ["saved"] * 4
    assert [steps_saved(node / "c") for node in two] == [[3, 4]] * 2
    parts = [found(node / "c")[0] for node in two]
    known = [entry.manifest.part for entry in parts if entry.manifest]
    assert [part.ranks for part in known if part] == [(0, 1), (2, 3)]
    assert len({part.whole for part in known if part}) == 1
    assert all(not list(problems(entry)) for entry in parts)
    names = [path.name for path in sorted(parts[1].path.iterdir())]
    assert [name for name in names if name.startswith("rank")] == [
        "rank-00002.tensors", "rank-00002.values", "rank-00003.tensors", "rank-00003.values",
    ]  # fmt: skip


def test_a_state_comes_back_from_the_parts(tmp_path: Path, nodes: list[Path]) -> None:
    """On the same nodes, all ranks at the same step."""
    two = nodes[:2]
    on_ranks(node_jobs.save, two, 5, world_size=4, folder=tmp_path / "b")

    said = on_ranks(node_jobs.restore, two, world_size=4, folder=tmp_path / "b")

    assert said == ["start 5 level 4"] * 4


def test_shards_over_all_nodes_go_on_bit_for_bit(tmp_path: Path, nodes: list[Path]) -> None:
    """FSDP2: each node has its ranks' shards of model and optimizer, and no more."""
    undisturbed = on_ranks(
        jobs.plain, tmp_path / "whole", 6, world_size=1, folder=tmp_path / "b"
    )[0]
    two = nodes[:2]
    on_ranks(node_jobs.sharded, two, 3, world_size=4, folder=tmp_path / "b")

    resumed = on_ranks(node_jobs.sharded, two, 6, world_size=4, folder=tmp_path / "b")

    assert resumed == [(3, undisturbed[1])] * 4


def test_all_ranks_of_one_node_keep_whole_checkpoints(
    tmp_path: Path, nodes: list[Path]
) -> None:
    """Nothing is parted where one directory is seen by all."""
    on_ranks(node_jobs.save, nodes[:1], 3, world_size=2, folder=tmp_path / "b")

    newest = found(nodes[0] / "c")[0]
    assert newest.manifest
    assert newest.manifest.part is None
    said = on_ranks(jobs.restore_only, nodes[0] / "c", world_size=1, folder=tmp_path / "b")
    assert said == ["start 3"]


@pytest.mark.parametrize("dying", [0, 1])
def test_a_kill_at_any_step_of_a_save_leaves_one_that_all_have(
    tmp_path: Path, nodes: list[Path], dying: int
) -> None:
    """All nodes have the new one, or all go back to the one before."""
    two, starts = nodes[:2], []
    for number in itertools.count(1 + dying, STRIDE):
        folder = tmp_path / "b"
        said = on_ranks(
            node_jobs.killed_amid_a_save, two, dying, number, world_size=2, folder=folder
        )
        back = on_ranks(node_jobs.restore, two, world_size=2, folder=folder)

        assert len(set(back)) == 1
        assert back[0] in {"start 1 level 0", "start 2 level 1"}
        if "saved" in said:
            assert back[0] == "start 2 level 1"
        starts.append(back[0])
        for node in two:
            assert not list((node / "c").glob(".saving-*"))
            shutil.rmtree(node / "c")
        if None not in said:
            break
    assert len(set(starts)) == 2
    assert len(starts) > 5, "hardly killed amid a save"


@pytest.mark.parametrize("dying", [(0, 1), (3,)], ids=str)
def test_kills_of_a_node_leave_the_newest_that_all_have(
    tmp_path: Path, nodes: list[Path], dying: tuple[int, ...]
) -> None:
    """kill -9 at any instant of a save: never older than what was known to be saved."""
    two, beats = nodes[:2], tmp_path / "beats"
    chance = random.Random(sum(dying))
    known = -1
    for _ in range(4):
        with Ranks(node_jobs.save_for_ever, two, world_size=4, folder=beats) as ranks:
            wait_for_save(beats, 0, known)
            time.sleep(chance.uniform(0.0, 0.06))  # the moment of the kill, not a wait
            for rank in dying:
                ranks.processes[rank].kill()
            time.sleep(chance.uniform(0.0, 0.02))
        known = max(saved_step(beats, rank) for rank in range(4))
        for rank in range(4):
            beat_path(beats, rank).unlink()

        said = on_ranks(node_jobs.restore, two, world_size=4, folder=beats)

        assert len(set(said)) == 1
        assert said[0].startswith("start "), said[0]
        _, start, _, level = said[0].split()
        assert int(start) - 1 >= known
        assert int(level) == int(start) - 1
        for node in two:
            shutil.rmtree(node / "c" / "quarantine", ignore_errors=True)


def test_ranks_of_a_node_that_tidy_up_at_once_do_not_fail(
    tmp_path: Path, nodes: list[Path]
) -> None:
    """One is slow to delete its own probe: the rank that leads has to tidy up after it, or wait."""
    said = on_ranks(node_jobs.tidy_at_once, nodes[:2], world_size=4, folder=tmp_path / "b")

    assert said == ["start 0 level -1"] * 4


def test_a_damaged_part_takes_all_ranks_back(tmp_path: Path, nodes: list[Path]) -> None:
    """To the checkpoint before; the damaged part lies in quarantine, the other stays."""
    two = nodes[:2]
    on_ranks(node_jobs.save, two, 5, world_size=4, folder=tmp_path / "b")
    with (two[1] / "c" / "step-000000004" / "rank-00002.tensors").open("r+b") as file:
        file.seek(123_456)
        file.write(b"?")

    said = on_ranks(node_jobs.restore, two, world_size=4, folder=tmp_path / "b")

    assert said == ["start 4 level 3"] * 4
    assert [steps_saved(node / "c") for node in two] == [[3, 4], [3]]
    assert len(put_aside(two[1] / "c")) == 1


def test_a_node_in_place_of_another_is_refused_with_one_line(
    tmp_path: Path, nodes: list[Path]
) -> None:
    """It names what is missing where and what to do, and moves nothing."""
    on_ranks(node_jobs.save, nodes[:2], 5, world_size=4, folder=tmp_path / "b")
    swapped = [nodes[0], nodes[2]]

    said = on_ranks(node_jobs.restore, swapped, world_size=4, folder=tmp_path / "b")

    assert len({line.partition(" is whole ")[2] for line in said}) == 1
    assert said[0].startswith("CheckpointPlaceError: ")
    assert "step 4: " in said[0]
    assert "where rank 2 runs, holds no part of it" in said[0]
    assert "restore(anew=True)" in said[0]
    assert "\n" not in said[0]
    assert steps_saved(nodes[0] / "c") == [3, 4]
    back = on_ranks(node_jobs.restore, nodes[:2], world_size=4, folder=tmp_path / "b")
    assert back == ["start 5 level 4"] * 4


def test_beginning_anew_on_other_nodes_keeps_the_parts(
    tmp_path: Path, nodes: list[Path]
) -> None:
    """In quarantine, from where they can be moved back; new saves are not counted behind them."""
    on_ranks(node_jobs.save, nodes[:2], 5, world_size=4, folder=tmp_path / "b")
    swapped = [nodes[0], nodes[2]]

    said = on_ranks(node_jobs.restore, swapped, "anew", world_size=4, folder=tmp_path / "b")

    assert said == ["start 0 level -1"] * 4
    assert {path.name for path, _ in put_aside(nodes[0] / "c")} == {
        "step-000000003-1", "step-000000004-1",
    }  # fmt: skip
    on_ranks(node_jobs.save, swapped, 2, world_size=4, folder=tmp_path / "b")
    assert [steps_saved(node / "c") for node in swapped] == [[0, 1]] * 2


def test_nodes_in_another_order_are_told(tmp_path: Path, nodes: list[Path]) -> None:
    """A part is of use only where the ranks run that wrote it."""
    on_ranks(node_jobs.save, nodes[:2], 2, world_size=4, folder=tmp_path / "b")

    said = on_ranks(node_jobs.restore, nodes[1::-1], world_size=4, folder=tmp_path / "b")

    assert len({line.partition(" is whole ")[2] for line in said}) == 1
    assert "it is the part of ranks 2 to 3, from " in said[0]
    assert "and ranks 0 to 1 run here" in said[0]


def test_the_commands_say_whose_part_it_is(
    tmp_path: Path, nodes: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """On a node one sees what is there, and that it is not all."""
    on_ranks(node_jobs.save, nodes[:2], 1, world_size=4, folder=tmp_path / "b")
    there = str(nodes[1] / "c")

    statuses = [main(["checkpoint", what, there]) for what in ("list", "verify", "path")]

    out, err = capsys.readouterr()
    assert statuses == [0, 0, 0]
    assert out.count("the part of ranks 2 to 3, written on ") == 2
    assert "the rest lies on other nodes" in err
    main(["checkpoint", "list", there, "--json"])
    part = json.loads(capsys.readouterr().out)["checkpoints"][0]["part"]
    assert part["ranks"] == [2, 3]
    assert part["node"]


def test_a_part_can_be_loaded_elsewhere_where_it_holds_all_of_it(
    tmp_path: Path, nodes: list[Path]
) -> None:
    """What all ranks hold alike is in every part; of shards the part holds some, and says so."""
    on_ranks(node_jobs.save, nodes[:2], 1, world_size=4, folder=tmp_path / "b")
    assert bool((load(nodes[1] / "c" / "step-000000000", "model")["first"] == 0).all())
    shutil.rmtree(nodes[1] / "c")
    shutil.rmtree(nodes[0] / "c")
    on_ranks(node_jobs.sharded, nodes[:2], 1, world_size=2, folder=tmp_path / "b")

    with pytest.raises(CheckpointLoadError, match="lies in the parts of other nodes"):
        load(nodes[1] / "c" / "step-000000000", "model")


def test_a_part_in_a_shared_place_is_not_taken_for_the_whole(
    tmp_path: Path, nodes: list[Path]
) -> None:
    """Where a user moves one to one node, and runs there alone."""
    on_ranks(node_jobs.save, nodes[:2], 1, world_size=2, folder=tmp_path / "b")

    said = on_ranks(jobs.restore_only, nodes[1] / "c", world_size=1, folder=tmp_path / "b")

    assert "is whole on the nodes of this job" in said[0]
    assert "of what 2 ranks saved, and this job has 1" in said[0]


def test_a_place_that_is_missing_on_one_node_is_said_by_all(
    tmp_path: Path, nodes: list[Path]
) -> None:
    """A disk that is not mounted there; nothing is made in its place."""
    nodes[1].rmdir()

    said = on_ranks(node_jobs.save, nodes[:2], 1, world_size=2, folder=tmp_path / "b")

    assert len(set(said)) == 1
    assert said[0].startswith("CheckpointPlaceError: rank 1 on ")
    assert "is its file system mounted?" in said[0]
    assert not nodes[1].exists()


def test_torchrun_on_two_nodes_with_one_name_for_their_disks(
    tmp_path: Path, nodes: list[Path]
) -> None:
    """Each torchrun in a mount namespace of its own, where the same name is another disk."""
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        missing("mount namespaces are not allowed")
    local = tmp_path / "local"
    local.mkdir()

    assert torchrun(nodes[:2], local, steps=2) == "start 0"
    assert torchrun(nodes[:2], local, steps=3) == "start 2"
    assert [steps_saved(node / "c") for node in nodes[:2]] == [[0, 1, 2]] * 2
    assert not list(local.iterdir())


def torchrun(nodes: list[Path], local: Path, *, steps: int) -> str:
    """What the training on *nodes* prints, the disk of each being *local* to it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(__file__).parent / "programs" / "node_training.py"
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    started = [
        subprocess.Popen(
            [
                "unshare", "--mount", "sh", "-c", script, "sh", node, local,
                Path(sysconfig.get_path("scripts")) / "torchrun",
                f"--nnodes={len(nodes)}", f"--node-rank={number}", "--nproc-per-node=2",
                "--master-addr=127.0.0.1", f"--master-port={port}",
                program, local / "c", str(steps),
            ],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number, node in enumerate(nodes)
    ]  # fmt: skip
    ended = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0] * len(nodes), ended
    return ended[0][0].strip()
