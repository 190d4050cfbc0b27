"""Older checkpoints go beside the training, and beside its next save."""

import subprocess
import sys
import threading
from pathlib import Path

import torch

from slurm_resilience.checkpoint_files.keep import REMOVING
from slurm_resilience.checkpoint_files.listing import found, problems
from slurm_resilience.training import Checkpoints, Run
from tests.training.ranks import on_ranks

LONGEST_S = 20.0


def save_beside_a_slow_removal(directory: Path) -> tuple[bool, list[str]]:
    """
    Three saves of which one is kept; the first one's removal lasts until the third has begun.

    Whether it could begin, and what is there after `finish`.
    """
    third_has_begun, went_on = threading.Event(), []

    def slow(event: str, arguments: tuple[object, ...]) -> None:
        if event == "shutil.rmtree" and REMOVING in str(arguments[0]):
            went_on.append(third_has_begun.wait(LONGEST_S))

    sys.addaudithook(slow)
    run = Run(
        checkpoints=Checkpoints(directory, every_steps=1, keep=1),
        state={"x": torch.zeros(1000)},
    )
    for step in range(run.restore(), 3):
        run.step(step)
    third_has_begun.set()
    run.finish()
    return all(went_on) and len(went_on) > 1, sorted(path.name for path in directory.iterdir())


def test_a_slow_removal_of_an_older_one_does_not_hold_the_training(tmp_path: Path) -> None:
    """On two ranks; and all of it is done once `finish` returns."""
    said = on_ranks(
        save_beside_a_slow_removal, tmp_path / "c", world_size=2, folder=tmp_path / "b"
    )

    assert said[0] == (True, ["owner.json", "owner.lock", "step-000000002"])
    newest = found(tmp_path / "c")[0].manifest
    assert newest
    assert newest.step == 2


def test_a_script_that_ends_without_finish_waits_for_its_save(tmp_path: Path) -> None:
    """It says so, and the checkpoint is there."""
    program = Path(__file__).parent / "programs" / "no_finish.py"

    ended = subprocess.run(
        [sys.executable, program, tmp_path / "c"], capture_output=True, text=True, check=True
    )

    assert "the script ends while step 0 is being saved: waiting for it" in ended.stderr
    (entry,) = found(tmp_path / "c")
    assert not list(problems(entry))


def test_a_run_that_was_closed_amid_its_save_is_forgotten_once_that_has_ended(
    tmp_path: Path,
) -> None:
    """By the next one: its memory is free, and the end of the script has no word of it."""
    program = Path(__file__).parent / "programs" / "no_finish.py"

    ended = subprocess.run(
        [sys.executable, program, tmp_path / "c", "close"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert ended.stdout == "forgotten\n"
    assert "the script ends" not in ended.stderr
    assert len(found(tmp_path / "c")) == 1
