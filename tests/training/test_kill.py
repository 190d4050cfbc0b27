"""kill -9 at any instant: what is on disk is always whole, and never older than before."""

import random
import time
from pathlib import Path

from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.watch.heartbeat import beat_path, read_beat
from tests.training.jobs import Level, save_for_ever
from tests.training.ranks import Ranks, wait_for


def saved_step(folder: Path, rank: int) -> int:
    """The step that a rank knows to be saved; -1 while it says nothing."""
    try:
        return read_beat(beat_path(folder, rank)).saved_step
    except UntrustedFileError:
        return -1


def wait_for_save(folder: Path, rank: int, after: int) -> None:
    """Until a rank knows a later step than *after* to be saved."""
    wait_for(lambda: saved_step(folder, rank) > after)


def restored(directory: Path) -> tuple[int, float]:
    """The first step to do, and the level of the state."""
    model = Level()
    run = Run(checkpoints=Checkpoints(directory), state={"model": model})
    start = run.restore()
    run.close()
    return start, model.level()


def test_any_of_many_kills_leaves_a_sound_newest_checkpoint(tmp_path: Path) -> None:
    """After each kill the state restores whole, at the step known to be saved or a later one."""
    directory, beats = tmp_path / "checkpoints", tmp_path / "beats"
    chance = random.Random(17)
    known, cut_off = -1, 0
    for _ in range(24):
        with Ranks(save_for_ever, directory, world_size=1, folder=beats):
            wait_for_save(beats, 0, known)
            time.sleep(chance.uniform(0.0, 0.06))  # the moment of the kill, not a wait
        known = saved_step(beats, 0)
        beat_path(beats, 0).unlink()
        cut_off += any(directory.glob(".*-*"))

        start, level = restored(directory)

        assert start - 1 >= known
        assert level == start - 1
        assert not list(directory.glob(".saving-*"))
    assert cut_off >= 4, "too few kills fell into a save to tell anything"


def test_kills_among_two_ranks_leave_a_sound_newest_checkpoint(tmp_path: Path) -> None:
    """Whichever rank dies first, the ranks restore the same whole state."""
    directory, beats = tmp_path / "checkpoints", tmp_path / "beats"
    chance = random.Random(18)
    known = -1
    for first in (0, 1, 1, 0, 1, 0):
        with Ranks(save_for_ever, directory, world_size=2, folder=beats) as ranks:
            wait_for_save(beats, 1, known)
            time.sleep(chance.uniform(0.0, 0.06))  # the moment of the kill, not a wait
            ranks.processes[first].kill()
            time.sleep(chance.uniform(0.0, 0.02))
        known = max(saved_step(beats, rank) for rank in range(2))
        for rank in range(2):
            beat_path(beats, rank).unlink()

        start, level = restored(directory)

        assert start - 1 >= known
        assert level == start - 1
