"""What the ranks of a test do whose `restore` fails."""

import os
import sys
from pathlib import Path

import torch

from slurm_resilience.errors import CheckpointError
from slurm_resilience.training import Checkpoints, Run
from tests.training.ranks import wait_for


def without_environment(directory: Path) -> list[str]:
    """What `restore` says where rank 0 alone meets what nobody expects when it looks around; then again."""
    run = Run(checkpoints=Checkpoints(directory), state={"n": 1}, timeout_minutes=0.2)
    troubles = iter([ValueError("not now")] if torch.distributed.get_rank() == 0 else [])

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event == "subprocess.Popen" and arguments[0] == "git":
            for trouble in troubles:
                raise trouble

    sys.addaudithook(look)
    said = [restored(run), restored(run)]
    run.close()
    return said


def beside_one_that_dies(directory: Path, copies: Path) -> tuple[str, list[str]]:
    """What `restore` says where rank 1 dies as the copier begins; children that are left then."""
    checkpoints = Checkpoints(directory, copies=f"file://{copies}")
    run = Run(checkpoints=checkpoints, state={"n": 1})
    begins, is_dead = directory.parent / "begins", directory.parent / "is-dead"

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event == "subprocess.Popen" and "copy" in list(arguments[1]):  # type: ignore[call-overload]
            begins.touch()
            wait_for(is_dead.exists)

    sys.addaudithook(look)
    said = restored(run)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    run.close()
    return said, children


def restored(run: Run) -> str:
    """What `restore` says."""
    try:
        return f"start {run.restore()}"
    except CheckpointError as error:
        return str(error)
