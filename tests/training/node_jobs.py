"""What the ranks of a test do on nodes with disks of their own: a folder each."""

import itertools
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from slurm_resilience.checkpoint_files.keep import PROBE
from slurm_resilience.errors import CheckpointError
from slurm_resilience.training import Checkpoints, Run
from tests.training.jobs import Level, Sampler, small, trained
from tests.training.ranks import wait_for


def disk(nodes: list[Path]) -> Path:
    """The disk of the node that this rank runs on, the ranks being dealt out in order."""
    rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return nodes[rank * len(nodes) // world_size] / "c"


def save_for_ever(nodes: list[Path]) -> None:
    """Save each step until killed."""
    model = Level()
    checkpoints = Checkpoints(disk(nodes), every_steps=1, keep=2, per_node=True)
    run = Run(checkpoints=checkpoints, state={"model": model, "sampler": Sampler(1)})
    for step in itertools.count(run.restore()):
        model.rise(step)
        run.step(step)


def save(nodes: list[Path], steps: int, copies: str | None = None, keep: int = 2) -> str:
    """Save each step until so many are done; what `restore` or `finish` said."""
    model = Level()
    checkpoints = Checkpoints(
        disk(nodes), every_steps=1, keep=keep, copies=copies, keep_copies=4, per_node=True
    )
    run = Run(checkpoints=checkpoints, state={"model": model})
    try:
        for step in range(run.restore(), steps):
            model.rise(step)
            run.step(step)
            if copies:
                wait_for(lambda: copied_parts(copies) == len(nodes))
        run.finish()
    except CheckpointError as error:
        return f"{type(error).__name__}: {error}"
    return "saved"


def save_and_finish(nodes: list[Path], copies: str) -> None:
    """Three saves, of which the first is copied at once and the next not for two hours."""
    checkpoints = Checkpoints(disk(nodes), every_steps=1, copies=copies, per_node=True)
    with Run(checkpoints=checkpoints, state={"model": Level()}) as run:
        for step in range(run.restore(), 3):
            run.step(step)


def copied_parts(copies: str | None) -> int:
    """How many parts have a whole copy."""
    place = Path((copies or "").removeprefix("file://"))
    return len(list(place.glob("part-*/step-*/manifest.json")))


def restore(nodes: list[Path], how: str = "", copies: str | None = None) -> str:
    """What `restore` says, the start and the level or its error."""
    model = Level()
    checkpoints = Checkpoints(disk(nodes), per_node=True, copies=copies)
    run = Run(checkpoints=checkpoints, state={"model": model})
    try:
        start = run.restore(anew=how == "anew")
    except CheckpointError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        run.close()
    return f"start {start} level {model.level():.0f}"


def tidy_at_once(nodes: list[Path]) -> str:
    """As `restore`; each deletes its probe late, unless the rank that leads its node was first."""
    rank = torch.distributed.get_rank()
    own, leads = f"-{rank}", rank % 2 == 0

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event != "os.remove" or PROBE not in str(arguments[0]):
            return
        path = Path(str(arguments[0]))
        if leads and not path.name.endswith(own):
            path.rename(path.with_name("gone"))
        elif not leads:
            with suppress(AssertionError):
                wait_for(lambda: not path.exists(), within_s=0.5)

    sys.addaudithook(look)
    return restore(nodes)


def sharded(nodes: list[Path], steps: int) -> tuple[int, str]:
    """Train with the model in shards over all ranks: where it began, all parameters."""
    model = small()
    fully_shard(model, mesh=init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
    return trained(disk(nodes), model, steps, per_node=True)


def killed_amid_a_save(nodes: list[Path], dying: int, number: int) -> str:
    """
    Save step 0; then step 1, in which rank *dying* is killed at its *number*-th look at its disk.

    What the ranks that live say.
    """
    model = Level()
    run = Run(
        checkpoints=Checkpoints(disk(nodes), keep=1, per_node=True), state={"model": model}
    )
    run.restore()
    model.rise(0)
    run.step(0)
    run.finish()
    run = Run(
        checkpoints=Checkpoints(disk(nodes), keep=1, per_node=True), state={"model": model}
    )
    run.restore()
    model.rise(1)
    if torch.distributed.get_rank() == dying:
        _die_at(number, disk(nodes))
    run.step(1)
    try:
        run.finish()
    except CheckpointError as error:
        return str(error)
    return "saved"


def _die_at(number: int, under: Path) -> None:
    left = itertools.count(number, -1)

    def look(event: str, arguments: tuple[object, ...]) -> None:
        is_disk = event == "open" or event.startswith("os.")
        name = str(arguments[0]) if arguments else ""
        if is_disk and name.startswith(str(under)) and next(left) == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)
