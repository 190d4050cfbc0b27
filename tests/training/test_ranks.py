"""Two ranks and more: the same decision at the same step, each with what is its own."""

import os
import signal
import subprocess
import sysconfig
from pathlib import Path

import pytest
import torch

from slurm_resilience.checkpoint_files.listing import directory_name, found
from slurm_resilience.errors import CheckpointError
from slurm_resilience.training import load
from slurm_resilience.watch.heartbeat import Stop, beat_path, write_stop
from tests.training import jobs
from tests.training.ranks import Ranks, on_ranks, wait_for
from tests.training.seen import beat, has_reached, steps_saved


@pytest.mark.parametrize("told", [0, 1])
def test_a_stop_word_to_one_rank_stops_all_at_the_same_step(tmp_path: Path, told: int) -> None:
    """Both leave the loop at one step, and the final checkpoint is of that step."""
    directory, beats = tmp_path / "c", tmp_path / "beats"
    with Ranks(jobs.until_told, directory, world_size=2, folder=beats) as ranks:
        wait_for(lambda: has_reached(beats, 50))
        write_stop(beat_path(beats, told), Stop.SAVE_AND_STOP)
        one, other = ranks.results()

    assert one == other
    assert steps_saved(directory) == [one[0]]
    ends = [beat(beats, rank) for rank in range(2)]
    assert [(end.step, end.saved_step) for end in ends if end] == [(one[0], one[0])] * 2


def test_a_signal_to_one_rank_stops_all(tmp_path: Path) -> None:
    """Without an agent a notice may come as a signal, to whichever rank."""
    directory, beats = tmp_path / "c", tmp_path / "beats"
    with Ranks(jobs.until_told, directory, world_size=2, folder=beats) as ranks:
        wait_for(lambda: has_reached(beats, 5))
        os.kill(ranks.processes[1].pid or 0, signal.SIGUSR2)
        one, other = ranks.results()

    assert one == other
    assert steps_saved(directory) == [one[0]]


def test_the_clock_saves_on_all_ranks_at_the_same_step(tmp_path: Path) -> None:
    """Rank 0's clock decides for all; nothing is saved that not all have saved."""
    directory, beats = tmp_path / "c", tmp_path / "beats"
    with Ranks(jobs.until_told, directory, 0.002, world_size=2, folder=beats) as ranks:
        wait_for(lambda: len(steps_saved(directory)) == 3)
        write_stop(beat_path(beats, 0), Stop.SAVE_AND_STOP)
        one, other = ranks.results()

    assert one == other
    assert all(entry.manifest and entry.manifest.world_size == 2 for entry in found(directory))


def test_each_rank_gets_its_own_random_numbers_and_sampler_back(tmp_path: Path) -> None:
    """Sampler, Python, numpy and torch of each rank go on where that rank's stood."""
    undisturbed = on_ranks(jobs.draw, tmp_path / "c", 1, 5, world_size=2, folder=tmp_path / "b")

    resumed = on_ranks(jobs.draw, tmp_path / "c", 100, 5, world_size=2, folder=tmp_path / "b")

    assert resumed == undisturbed
    assert resumed[0] != resumed[1]


def test_another_number_of_ranks_restores_what_all_share(tmp_path: Path) -> None:
    """A state of two ranks goes on in one process."""
    on_ranks(jobs.draw, tmp_path / "c", 1, 5, world_size=2, folder=tmp_path / "b")

    said = on_ranks(jobs.restore_only, tmp_path / "c", world_size=1, folder=tmp_path / "b")

    assert said == ["start 5"]


def test_a_part_can_be_loaded_elsewhere(tmp_path: Path) -> None:
    """To evaluate or export: whole tensors, although two ranks wrote them."""
    directory = tmp_path / "c"
    on_ranks(jobs.draw, directory, 1, 5, world_size=2, folder=tmp_path / "b")
    checkpoint = directory / directory_name(4)

    weights = load(checkpoint, "model")

    assert torch.equal(weights["first"], torch.full((jobs.SIZE,), -1.0))
    with pytest.raises(CheckpointError, match="holds no 'ema', but best, model, sampler"):
        load(checkpoint, "ema")
    (checkpoint / "rank-00001.tensors").unlink()
    with pytest.raises(CheckpointError, match=r"rank-00001\.tensors"):
        load(checkpoint, "model")


def test_ranks_that_come_to_their_end_do_not_abort(tmp_path: Path) -> None:
    """Also where the script leaves torch's groups as they are; three times, for it is a race."""
    torchrun = Path(sysconfig.get_path("scripts")) / "torchrun"
    program = Path(__file__).parent / "programs" / "short_training.py"
    options = ["--standalone", "--nproc-per-node=2"]
    command = [str(torchrun), *options, str(program), str(tmp_path / "c")]

    for _ in range(3):
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr

    assert steps_saved(tmp_path / "c") == [19, 39, 59]


WORLDS = [(2, 2), (2, 1), (1, 2), (4, 2), (2, 4)]


@pytest.mark.parametrize(
    ("saved_on", "restored_on"), WORLDS, ids=[f"{a} to {b} ranks" for a, b in WORLDS]
)
def test_a_sharded_training_goes_on_bit_for_bit_on_any_number_of_ranks(
    tmp_path: Path, saved_on: int, restored_on: int
) -> None:
    """Model, optimizer and scheduler under fully_shard, some shards empty, as if never stopped."""
    undisturbed = on_ranks(
        jobs.sharded, tmp_path / "one", 6, world_size=restored_on, folder=tmp_path / "a"
    )
    on_ranks(jobs.sharded, tmp_path / "two", 3, world_size=saved_on, folder=tmp_path / "b")

    resumed = on_ranks(
        jobs.sharded, tmp_path / "two", 6, world_size=restored_on, folder=tmp_path / "b"
    )

    assert [start for start, _ in resumed] == [3] * restored_on
    assert [end for _, end in resumed] == [end for _, end in undisturbed]


@pytest.mark.parametrize("first_sharded", [True, False], ids=["sharded first", "plain first"])
def test_a_training_may_begin_to_shard_or_cease_to(
    tmp_path: Path,
    first_sharded: bool,  # noqa: FBT001 - a row
) -> None:
    """A checkpoint does not depend on how its state was spread."""
    plain = on_ranks(jobs.plain, tmp_path / "one", 6, world_size=1, folder=tmp_path / "a")
    first, then = (jobs.sharded, jobs.plain) if first_sharded else (jobs.plain, jobs.sharded)
    on_ranks(first, tmp_path / "two", 3, world_size=1 + first_sharded, folder=tmp_path / "b")

    ranks = 2 - first_sharded
    resumed = on_ranks(then, tmp_path / "two", 6, world_size=ranks, folder=tmp_path / "b")

    assert resumed == [(3, plain[0][1])] * ranks
