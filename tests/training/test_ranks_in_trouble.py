"""One rank in trouble: no other waits for it for ever, and what was saved stays."""

import os
import signal
from pathlib import Path

import pytest

from slurm_resilience.training.memory import left
from tests.training import jobs, trouble_jobs
from tests.training.ranks import Ranks, on_ranks, wait_for
from tests.training.seen import has_reached, steps_saved


def test_a_rank_that_dies_does_not_hold_the_others(tmp_path: Path) -> None:
    """The survivor says that its save failed, ends, and leaves sound checkpoints."""
    directory, beats = tmp_path / "c", tmp_path / "beats"
    job = trouble_jobs.as_long_as_peers_live
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
    job = trouble_jobs.told_without_the_other
    with Ranks(job, directory, how, timeout_minutes, world_size=2, folder=beats) as ranks:
        wait_for((directory / "alone").exists)
        os.kill(ranks.processes[0].pid or 0, signal.SIGTERM)
        survivor = ranks.results(ranks=1)[0]

    assert "is not saved: lost other ranks" in survivor
    assert int(survivor.split()[-2]) < 15
    assert steps_saved(directory)[-1] >= 9


def test_a_rank_that_is_silent_is_given_up(tmp_path: Path) -> None:
    """A stopped process holds the others for the time-out, not for ever."""
    directory, beats = tmp_path / "c", tmp_path / "beats"
    job = trouble_jobs.as_long_as_peers_live
    with Ranks(job, directory, 400, 0.03, world_size=2, folder=beats) as ranks:
        wait_for(lambda: has_reached(beats, 20))
        os.kill(ranks.processes[1].pid or 0, signal.SIGSTOP)
        survivor = ranks.results(ranks=1)[0]

    assert "is not saved: lost other ranks" in survivor


@pytest.mark.parametrize("where", ["state_dict", "writer"])
def test_what_nobody_expects_on_one_rank_fails_one_save_for_all(
    tmp_path: Path, where: str
) -> None:
    """The ranks stay together: the next saves count, and nothing half written stays."""
    directory = tmp_path / "c"

    said = on_ranks(
        trouble_jobs.with_trouble_on_one, directory, where, world_size=2, folder=tmp_path / "b"
    )

    assert said == ["saved", "saved"]
    assert steps_saved(directory) == [1, 2, 3]
    assert not list(directory.glob(".saving-*"))


def test_a_copier_that_cannot_be_begun_again_fails_no_save(tmp_path: Path) -> None:
    """What is read back is saved, whatever becomes of its copies."""
    said = on_ranks(
        trouble_jobs.without_copier, tmp_path / "c", tmp_path / "copies", world_size=1,
        folder=tmp_path / "b",
    )  # fmt: skip

    assert said == ["saved, 1 copier killed"]
    assert steps_saved(tmp_path / "c") == [0, 1]


def test_saving_goes_on_once_a_rank_that_hung_is_back(tmp_path: Path) -> None:
    """One write that hangs too long costs the saves of that time, and not all that follow."""
    said = on_ranks(
        trouble_jobs.through_a_write_that_hangs,
        tmp_path / "c",
        world_size=2,
        folder=tmp_path / "b",
    )

    assert said == ["saved", "saved"]
    assert "lost other ranks" in (tmp_path / "c" / "given-up").read_text()


def test_a_last_save_that_failed_is_tried_once_more_at_the_end(tmp_path: Path) -> None:
    """By all ranks, wherever it failed; a moment's trouble does not cost the last steps."""
    said = on_ranks(
        trouble_jobs.saved_at_the_second_try,
        tmp_path / "c",
        world_size=2,
        folder=tmp_path / "b",
    )

    assert said == ["saved", "saved"]
    assert steps_saved(tmp_path / "c") == [0]


def test_a_group_that_is_destroyed_under_a_save_is_one_line(tmp_path: Path) -> None:
    """What was lost, and by what; no stack of torch's."""
    log_file = tmp_path / "log"

    on_ranks(
        trouble_jobs.closed_too_early,
        tmp_path / "c",
        log_file,
        world_size=2,
        folder=tmp_path / "b",
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
        trouble_jobs.with_much, tmp_path / "c", size_bytes, world_size=2, folder=tmp_path / "b"
    )

    assert "are needed on this node (2 ranks)" in said[0]
    assert said[0] == said[1]
