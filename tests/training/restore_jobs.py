"""What the ranks of a test do whose `restore` fails."""

import itertools
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

from slurm_resilience.errors import CheckpointError, ResilienceError, UsageError
from slurm_resilience.training import Checkpoints, Run
from tests.training.jobs import Level, restore_only
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


def kind_of_refusal(directory: Path) -> str:
    """The type of what `restore` raises."""
    try:
        Run(checkpoints=Checkpoints(directory), state={"model": Level()}).restore()
    except ResilienceError as error:
        return type(error).__name__
    return "restored"


def in_old_wrapper(directory: Path) -> str:
    """What `restore` says to a model in FullyShardedDataParallel."""
    model = FullyShardedDataParallel(nn.Linear(8, 7), device_id=torch.device("cpu"))
    try:
        Run(checkpoints=Checkpoints(directory), state={"model": model}).restore()
    except ResilienceError as error:
        return f"{type(error).__name__} {error}"
    return "restored"


def restore_elsewhere(folder: Path, made: bool) -> str:  # noqa: FBT001 - passed between processes
    """As `restore_only`, in a directory that only this rank has."""
    own = folder / str(torch.distributed.get_rank())
    (own / "c").mkdir(parents=True) if made else own.mkdir()
    os.chdir(own)
    return restore_only(Path("c"))


def unsavable_on_one(directory: Path) -> str:
    """What `restore` says where rank 1 alone has something that cannot be saved."""
    value = object() if torch.distributed.get_rank() == 1 else 1
    try:
        Run(checkpoints=Checkpoints(directory), state={"x": value}).restore()
    except UsageError as error:
        return str(error)
    return "restored"


def unconnected(directory: Path) -> str:
    """What `Run` says to one of two ranks that never met."""
    os.environ["WORLD_SIZE"] = "2"
    try:
        Run(checkpoints=Checkpoints(directory), state={"x": 1})
    except UsageError as error:
        return str(error)
    return "made"


def fetching_slowly(directory: Path, copies: Path) -> str:
    """What `restore` says where rank 0 fetches for twice as long as a rank may be silent."""
    checkpoints = Checkpoints(directory, copies=f"file://{copies}")
    run = Run(checkpoints=checkpoints, state={"model": Level()}, timeout_minutes=0.04)
    commands = itertools.count(1)

    def look(event: str, _: tuple[object, ...]) -> None:
        if event == "subprocess.Popen" and next(commands) == 1:
            time.sleep(5)

    sys.addaudithook(look)
    try:
        return f"start {run.restore()}"
    except CheckpointError as error:
        return str(error)
    finally:
        run.close()
