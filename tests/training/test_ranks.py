"""Two ranks: the same decision at the same step, and no rank waits for a dead one for ever."""

import os
import signal
import subprocess
import sysconfig
from pathlib import Path

import pytest
import torch

from slurm_resilience.checkpoint_files.listing import directory_name, found
from slurm_resilience.errors import CheckpointError, UntrustedFileError
from slurm_resilience.training import load
from slurm_resilience.training.memory import left
from slurm_resilience.watch.heartbeat import Beat, Stop, beat_path, read_beat, write_stop
from tests.training import jobs
from tests.training.ranks import Ranks, on_ranks, wait_for


def beat(folder: Path, rank: int) -> Beat | None:
    """A rank's heartbeat, once there is one."""
    try:
        return read_beat(beat_path(folder, rank))
    except UntrustedFileError:
        return None


def has_reached(folder: Path, step: int) -> bool:
    """Whether both ranks have done *step*."""
    beats = [beat(folder, rank) for rank in range(2)]
    return all(one and one.step >= step for one in beats)


def steps_saved(directory: Path) -> list[int]:
    """Steps of all checkpoints there, the oldest first."""
    entries = found(directory) if directory.is_dir() else []
    return sorted(entry.manifest.step for entry in entries if entry.manifest)


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


def test_a_rank_that_dies_does_not_hold_the_others(tmp_path: Path) -> None:
    """The survivor says that its save failed, ends, and leaves sound checkpoints."""
    directory, beats = tmp_path / "c", tmp_path / "beats"
    job = jobs.as_long_as_peers_live
    with Ranks(job, directory, 400, 30.0, world_size=2, folder=beats) as ranks:
        wait_for(lambda: has_reached(beats, 20))
        ranks.processes[1].kill()
        survivor, _ = ranks.results()

    assert "is not saved: lost other ranks" in survivor
    said = on_ranks(jobs.restore_only, directory, world_size=1, folder=beats)
    assert said[0].startswith("start ")


@pytest.mark.parametrize(
    ("how", "timeout_minutes"), [("dies", 30.0), ("leaves", 0.03)], ids=["died", "left alone"]
)
def test_a_signal_still_stops_a_rank_that_has_lost_another(
    tmp_path: Path, how: str, timeout_minutes: float
) -> None:
    """It trains on once the other is given up, and leaves at once when told, saying what is not saved."""
    directory, beats = tmp_path / "c", tmp_path / "beats"
    job = jobs.told_without_the_other
    with Ranks(job, directory, how, timeout_minutes, world_size=2, folder=beats) as ranks:
        wait_for((directory / "alone").exists)
        os.kill(ranks.processes[0].pid or 0, signal.SIGTERM)
        survivor = ranks.results(ranks=1)[0]

    assert "is not saved: lost other ranks" in survivor
    assert int(survivor.split()[-2]) < 15
    assert steps_saved(directory)[-1] >= 9


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


def test_a_rank_that_is_silent_is_given_up(tmp_path: Path) -> None:
    """A stopped process holds the others for the time-out, not for ever."""
    directory, beats = tmp_path / "c", tmp_path / "beats"
    job = jobs.as_long_as_peers_live
    with Ranks(job, directory, 400, 0.03, world_size=2, folder=beats) as ranks:
        wait_for(lambda: has_reached(beats, 20))
        os.kill(ranks.processes[1].pid or 0, signal.SIGSTOP)
        survivor = ranks.results(ranks=1)[0]

    assert "is not saved: lost other ranks" in survivor


@pytest.mark.parametrize(
    ("made", "says"),
    [(True, "not the same directory on every node: rank 1"), (False, "share it")],
)
def test_ranks_that_see_different_directories_are_refused(
    tmp_path: Path, *, made: bool, says: str
) -> None:
    """A node-local directory by mistake is said at the start, by all ranks."""
    said = on_ranks(jobs.restore_elsewhere, tmp_path, made, world_size=2, folder=tmp_path / "b")

    assert said[0] == said[1]
    assert says in said[0]
    assert "per_node=True" in said[0]


def test_what_one_rank_cannot_save_is_refused_by_all(tmp_path: Path) -> None:
    """No rank waits for one that has failed."""
    said = on_ranks(jobs.unsavable_on_one, tmp_path / "c", world_size=2, folder=tmp_path / "b")

    assert said[0] == said[1]
    assert "rank 1 on " in said[0]
    assert "builtins.object" in said[0]


def test_ranks_without_a_process_group_are_refused(tmp_path: Path) -> None:
    """Forgetting init_process_group is said, not turned into two trainings in one directory."""
    said = on_ranks(jobs.unconnected, tmp_path / "c", world_size=1, folder=tmp_path / "b")

    assert "init_process_group" in said[0]


@pytest.mark.parametrize(
    ("inner", "kind"),
    [("mount/c", "CheckpointPlaceError"), ("damaged", "CheckpointLoadError")],
)
def test_all_ranks_say_what_kind_of_trouble_it_is(
    tmp_path: Path, inner: str, kind: str
) -> None:
    """Whoever looks at the first rank that died draws the same conclusion."""
    (tmp_path / "damaged" / "step-000000001").mkdir(parents=True)

    said = on_ranks(jobs.kind_of_refusal, tmp_path / inner, world_size=2, folder=tmp_path / "b")

    assert said == [kind, kind]


def test_a_model_in_the_old_wrapper_is_refused_before_the_first_step(tmp_path: Path) -> None:
    """Not after hours of saves that are of no use, and by all ranks."""
    said = on_ranks(jobs.in_old_wrapper, tmp_path / "c", world_size=2, folder=tmp_path / "b")

    assert said[0] == said[1]
    assert said[0].startswith("UsageError")
    assert "use fully_shard" in said[0]


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


@pytest.mark.parametrize("where", ["state_dict", "writer"])
def test_what_nobody_expects_on_one_rank_fails_one_save_for_all(
    tmp_path: Path, where: str
) -> None:
    """The ranks stay together: the next saves count, and nothing half written stays."""
    directory = tmp_path / "c"

    said = on_ranks(
        jobs.with_trouble_on_one, directory, where, world_size=2, folder=tmp_path / "b"
    )

    assert said == ["saved", "saved"]
    assert steps_saved(directory) == [1, 2, 3]
    assert not list(directory.glob(".saving-*"))


def test_a_copier_that_cannot_be_begun_again_fails_no_save(tmp_path: Path) -> None:
    """What is read back is saved, whatever becomes of its copies."""
    said = on_ranks(
        jobs.without_copier, tmp_path / "c", tmp_path / "copies", world_size=1,
        folder=tmp_path / "b",
    )  # fmt: skip

    assert said == ["saved, 1 copier killed"]
    assert steps_saved(tmp_path / "c") == [0, 1]


def test_saving_goes_on_once_a_rank_that_hung_is_back(tmp_path: Path) -> None:
    """One write that hangs too long costs the saves of that time, and not all that follow."""
    said = on_ranks(
        jobs.through_a_write_that_hangs, tmp_path / "c", world_size=2, folder=tmp_path / "b"
    )

    assert said == ["saved", "saved"]
    assert "lost other ranks" in (tmp_path / "c" / "given-up").read_text()


def test_a_rank_that_fetches_for_long_is_not_silent(tmp_path: Path) -> None:
    """The others hear that it is still at it."""
    directory, copies = tmp_path / "c", tmp_path / "copies"
    on_ranks(jobs.plain, tmp_path / "made", 3, world_size=1, folder=tmp_path / "b")
    copies.mkdir()

    said = on_ranks(
        jobs.fetching_slowly, directory, copies, world_size=2, folder=tmp_path / "b"
    )

    assert said == ["start 0", "start 0"]


def test_a_last_save_that_failed_is_tried_once_more_at_the_end(tmp_path: Path) -> None:
    """By all ranks, wherever it failed; a moment's trouble does not cost the last steps."""
    said = on_ranks(
        jobs.saved_at_the_second_try, tmp_path / "c", world_size=2, folder=tmp_path / "b"
    )

    assert said == ["saved", "saved"]
    assert steps_saved(tmp_path / "c") == [0]


def test_a_group_that_is_destroyed_under_a_save_is_one_line(tmp_path: Path) -> None:
    """What was lost, and by what; no stack of torch's."""
    log_file = tmp_path / "log"

    on_ranks(
        jobs.closed_too_early, tmp_path / "c", log_file, world_size=2, folder=tmp_path / "b"
    )

    said = [line for line in log_file.read_text().splitlines() if "is not saved" in line]
    assert len(said) == 1
    assert "step 0 is not saved" in said[0]
    assert "destroy_process_group() was called before the save had ended" in said[0]
    assert "Traceback" not in log_file.read_text()


def test_ranks_on_one_node_count_each_other_without_torchrun(tmp_path: Path) -> None:
    """srun sets no LOCAL_WORLD_SIZE; what all of them copy together has to fit."""
    size_bytes = int(min(left().values()) * 0.7)

    said = on_ranks(
        jobs.with_much, tmp_path / "c", size_bytes, world_size=2, folder=tmp_path / "b"
    )

    assert "are needed on this node (2 ranks)" in said[0]
    assert said[0] == said[1]
