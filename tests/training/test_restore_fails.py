"""A `restore` that fails fails on all ranks, and leaves nothing behind that works, or that is held."""

from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.owner import Claim, owner
from slurm_resilience.errors import CheckpointPlaceError, UsageError
from slurm_resilience.training import Checkpoints, Run
from tests.training import restore_jobs
from tests.training.ranks import Ranks, on_ranks, wait_for


def test_a_run_that_was_not_restored_saves_nothing(tmp_path: Path) -> None:
    """What is wrong is said again until it is mended; the directory is free for another meanwhile."""
    data = tmp_path / "data"
    checkpoints = Checkpoints(tmp_path / "c", every_steps=1, training_data=data)
    run = Run(checkpoints=checkpoints, state={"n": 1})
    for _ in range(2):
        with pytest.raises(CheckpointPlaceError, match=str(data)):
            run.restore()
    with pytest.raises(UsageError, match="call restore"):
        run.step(0)
    Claim(tmp_path / "c", owner({"SLURM_JOB_ID": "77"}, node="n1", pid=1)).release()
    data.mkdir()

    start = run.restore()
    run.step(start)
    run.finish()

    assert len(list((tmp_path / "c").glob("step-*"))) == 1


def test_what_one_rank_cannot_find_out_is_told_to_all(tmp_path: Path) -> None:
    """No rank waits for it, and all can try again."""
    answers = on_ranks(
        restore_jobs.without_environment, tmp_path / "c", world_size=2, folder=tmp_path / "b"
    )

    assert answers[0] == answers[1]
    first, second = answers[0]
    assert first.endswith("ValueError: not now")
    assert second == "start 0"


def test_a_copier_ends_with_the_restore_that_began_it(tmp_path: Path) -> None:
    """A rank dies at the very end of it: nobody copies for a training that has not begun."""
    job, folder = restore_jobs.beside_one_that_dies, tmp_path / "b"
    arguments = (tmp_path / "c", tmp_path / "copies")
    with Ranks(job, *arguments, world_size=2, folder=folder) as ranks:
        wait_for((tmp_path / "begins").exists)
        ranks.processes[1].kill()
        ranks.processes[1].join()
        (tmp_path / "is-dead").touch()
        said, children = ranks.results()[0]

    assert said.startswith("lost other ranks")
    assert children == []
