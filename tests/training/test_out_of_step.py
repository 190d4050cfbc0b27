"""Ranks that do not go alike, and a process that may begin no threads."""

import logging
import threading
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from slurm_resilience.checkpoint_files.listing import found, problems
from slurm_resilience.training import Checkpoints, Run
from tests.training.jobs import Level, finished
from tests.training.ranks import on_ranks, wait_for
from tests.training.seen import heard


def one_rank_leaves_a_step_out(directory: Path, left_out: int) -> str:
    """Save each step; rank 1 does not call `run.step` for one. What the log and `finish` say."""
    said = heard()
    model, own = Level(), torch.zeros(1000)
    run = Run(
        checkpoints=Checkpoints(directory, every_steps=1),
        state={"model": model, "own": own},
        timeout_minutes=0.05,
    )
    for step in range(run.restore(), 6):
        model.rise(step)
        own.fill_(step)
        if dist.get_rank() != 1 or step != left_out:
            run.step(step)
    word = finished(run)
    return f"{said.getvalue()}finish: {word}"


@pytest.mark.parametrize("left_out", [1, 4])
def test_states_of_two_steps_make_no_checkpoint(tmp_path: Path, left_out: int) -> None:
    """What was saved while all went alike stays; the log says which steps they are at."""
    said = on_ranks(
        one_rank_leaves_a_step_out,
        tmp_path / "c",
        left_out,
        world_size=2,
        folder=tmp_path / "b",
    )

    entries = found(tmp_path / "c")
    assert entries
    assert not [why for entry in entries for why in problems(entry)]
    assert max(entry.manifest.step for entry in entries if entry.manifest) < left_out
    at = "the ranks are not at the same step, but at "
    assert f"step {left_out} is not saved: {at}{left_out} to {left_out + 1}: " in said[0]
    assert "finish: saved" not in said[0]


def every_steps_of_its_own(directory: Path) -> str:
    """Rank 1 was given other settings."""
    rank = dist.get_rank()
    run = Run(
        checkpoints=Checkpoints(directory, every_steps=2 + rank),
        state={"own": torch.zeros(1000)},
        timeout_minutes=0.05,
    )
    for step in range(run.restore(), 8):
        run.state["own"].fill_(step)
        run.step(step)
    return finished(run)


def test_other_settings_on_one_rank_make_no_mixed_checkpoint(tmp_path: Path) -> None:
    """They save at other steps."""
    on_ranks(every_steps_of_its_own, tmp_path / "c", world_size=2, folder=tmp_path / "b")

    for entry in found(tmp_path / "c"):
        assert not list(problems(entry))
        values = torch.cat([
            torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.float32)
            for file in entry.path.glob("*.tensors")
        ])  # fmt: skip
        assert entry.manifest
        assert bool((values[values != 0] == entry.manifest.step).all())


def no_more_threads(directory: Path) -> str:
    """Save where the system lets this user begin no thread."""
    model = Level()
    run = Run(checkpoints=Checkpoints(directory, every_steps=1), state={"model": model})
    start = run.restore()
    threading.stack_size(1 << 46)  # more than there is: no thread begins
    model.rise(start)
    run.step(start)
    return finished(run)


def test_where_no_thread_can_be_begun_the_training_waits_for_the_save(tmp_path: Path) -> None:
    """And it is saved."""
    said = on_ranks(no_more_threads, tmp_path / "c", world_size=1, folder=tmp_path / "b")

    assert said == ["saved"]


def closed_amid_a_save(directory: Path) -> int:
    """Where a second run in the same process begins, the first being closed while it saved."""
    logging.disable()
    state = {"x": torch.zeros(4_000_000)}
    first = Run(checkpoints=Checkpoints(directory, every_steps=1), state=state)
    first.step(first.restore())
    first.close()
    second = Run(checkpoints=Checkpoints(directory, every_steps=1), state=state)
    wait_for(lambda: found(directory))
    return second.restore()


def test_a_directory_is_free_once_the_save_at_close_has_ended(tmp_path: Path) -> None:
    """Also for another run of the same process."""
    said = on_ranks(closed_amid_a_save, tmp_path / "c", world_size=1, folder=tmp_path / "b")

    assert said == [1]
