"""A `restore` that fails fails on all ranks, and leaves nothing behind that works, or that is held."""

from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.owner import Claim, owner
from slurm_resilience.errors import UsageError
from slurm_resilience.training import Checkpoints, Run
from tests.training import jobs, restore_jobs
from tests.training.ranks import Ranks, on_ranks, wait_for


def test_a_run_that_was_not_restored_saves_nothing(tmp_path: Path) -> None:
    """What is wrong is said again until it is mended; the directory is free for another meanwhile."""
    checkpoints = Checkpoints(tmp_path / "c", every_steps=1)
    run = Run(checkpoints=checkpoints, state={"n": 1, "odd": object()})
    for _ in range(2):
        with pytest.raises(UsageError, match="odd"):
            run.restore()
    with pytest.raises(UsageError, match="call restore"):
        run.step(0)
    Claim(tmp_path / "c", owner({"SLURM_JOB_ID": "77"}, node="n1", pid=1)).release()
    run.state["odd"] = 2

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


@pytest.mark.parametrize(
    ("made", "says"),
    [(True, "not the same directory on every node: rank 1"), (False, "share it")],
)
def test_ranks_that_see_different_directories_are_refused(
    tmp_path: Path, *, made: bool, says: str
) -> None:
    """A node-local directory by mistake is said at the start, by all ranks."""
    said = on_ranks(
        restore_jobs.restore_elsewhere, tmp_path, made, world_size=2, folder=tmp_path / "b"
    )

    assert said[0] == said[1]
    assert says in said[0]
    assert "per_node=True" in said[0]


def test_what_one_rank_cannot_save_is_refused_by_all(tmp_path: Path) -> None:
    """No rank waits for one that has failed."""
    said = on_ranks(
        restore_jobs.unsavable_on_one, tmp_path / "c", world_size=2, folder=tmp_path / "b"
    )

    assert said[0] == said[1]
    assert "rank 1 on " in said[0]
    assert "builtins.object" in said[0]


def test_ranks_without_a_process_group_are_refused(tmp_path: Path) -> None:
    """Forgetting init_process_group is said, not turned into two trainings in one directory."""
    said = on_ranks(
        restore_jobs.unconnected, tmp_path / "c", world_size=1, folder=tmp_path / "b"
    )

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

    said = on_ranks(
        restore_jobs.kind_of_refusal, tmp_path / inner, world_size=2, folder=tmp_path / "b"
    )

    assert said == [kind, kind]


def test_a_model_in_the_old_wrapper_is_refused_before_the_first_step(tmp_path: Path) -> None:
    """Not after hours of saves that are of no use, and by all ranks."""
    said = on_ranks(
        restore_jobs.in_old_wrapper, tmp_path / "c", world_size=2, folder=tmp_path / "b"
    )

    assert said[0] == said[1]
    assert said[0].startswith("UsageError")
    assert "use fully_shard" in said[0]


def test_a_rank_that_fetches_for_long_is_not_silent(tmp_path: Path) -> None:
    """The others hear that it is still at it."""
    directory, copies = tmp_path / "c", tmp_path / "copies"
    on_ranks(jobs.plain, tmp_path / "made", 3, world_size=1, folder=tmp_path / "b")
    copies.mkdir()

    said = on_ranks(
        restore_jobs.fetching_slowly, directory, copies, world_size=2, folder=tmp_path / "b"
    )

    assert said == ["start 0", "start 0"]
