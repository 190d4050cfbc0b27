"""What the ranks of a test do. Each job is a training that a test can check from outside."""

import atexit
import errno
import itertools
import logging
import os
import random
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

from slurm_resilience.errors import CheckpointError, ResilienceError, UsageError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.watch.heartbeat import DIRECTORY_VARIABLE
from tests.training.ranks import wait_for

SIZE = 200_000


class Level(nn.Module):
    """Parameters that all equal the number of the last step: half of one state shows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.full((SIZE,), -1.0))
        self.second = nn.Parameter(torch.full((SIZE,), -1.0))

    def rise(self, step: int) -> None:
        """Do a step."""
        with torch.no_grad():
            self.first.fill_(step)
            self.second.fill_(step)

    def level(self) -> float:
        """The step that all parameters agree on; nan where they do not."""
        values = torch.cat([self.first.detach(), self.second.detach()])
        return float(values[0]) if bool((values == values[0]).all()) else float("nan")


class Sampler:
    """A data source with a position and random order, different on each rank."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.position = 0

    def next(self) -> tuple[int, int]:
        """The next sample."""
        self.position += 1
        return self.position, int(torch.randint(1 << 30, (1,), generator=self.generator))

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]
        self.generator.set_state(state["generator"])


def save_for_ever(directory: Path, keep: int = 2) -> None:
    """Save each step until killed."""
    model = Level()
    checkpoints = Checkpoints(directory, every_steps=1, keep=keep)
    run = Run(checkpoints=checkpoints, state={"model": model})
    for step in itertools.count(run.restore()):
        model.rise(step)
        run.step(step)


def until_told(directory: Path, every_minutes: float | None = None) -> tuple[int, float]:
    """Train until told to stop; the step it stopped at, and the level."""
    model = Level()
    checkpoints = Checkpoints(directory, every_steps=1_000_000, every_minutes=every_minutes)
    run = Run(checkpoints=checkpoints, state={"model": model})
    for step in itertools.count(run.restore()):
        model.rise(step)
        if run.step(step):
            break
    run.finish()
    return step, model.level()


def near_the_end(directory: Path) -> None:
    """Ten steps, the time limit being near."""
    os.environ["SLURM_JOB_END_TIME"] = str(int(time.time()) + 20)
    run = Run(checkpoints=Checkpoints(directory), state={"model": Level()})
    for step in range(run.restore(), 10):
        run.step(step)
    run.finish(save=False)


def nan_on_one(directory: Path) -> None:
    """One step, with a loss that is no number on rank 1 alone."""
    run = Run(checkpoints=Checkpoints(directory), state={"model": Level()})
    run.restore()
    run.step(0, loss=float("nan") if torch.distributed.get_rank() == 1 else 0.5)
    run.finish()


def skipping(directory: Path) -> int:
    """Steps until three checkpoints are there, saved at every step that is free for it."""
    checkpoints = Checkpoints(directory, every_steps=1, keep=100, if_busy="skip")
    state = {"x": torch.zeros(10_000_000), "model": Level()}
    run = Run(checkpoints=checkpoints, state=state)
    for step in itertools.count(run.restore()):
        run.step(step)
        here = torch.tensor([len(list(directory.glob("step-*")))])
        torch.distributed.all_reduce(here)
        if here >= 6:
            break
    run.finish()
    return step


def as_long_as_peers_live(directory: Path, steps: int, timeout_minutes: float) -> str:
    """Save each step, whatever becomes of the others; what `finish` said."""
    model = Level()
    run = Run(
        checkpoints=Checkpoints(directory, every_steps=1),
        state={"model": model},
        timeout_minutes=timeout_minutes,
    )
    for step in range(run.restore(), steps):
        model.rise(step)
        run.step(step)
    return finished(run)


def told_without_the_other(directory: Path, how: str, timeout_minutes: float) -> str:
    """
    Train until told; rank 1 leaves after step 30, by itself or with the process. What the other
    is told in the end, and whether that took long.
    """
    del os.environ[DIRECTORY_VARIABLE]
    rank = torch.distributed.get_rank()
    run = Run(
        checkpoints=Checkpoints(directory, every_steps=10),
        state={"model": Level()},
        timeout_minutes=timeout_minutes,
    )
    for step in itertools.count(run.restore()):
        told_at = time.monotonic()
        if run.step(step):
            break
        if rank == 1 and step == 30:
            if how == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            while not (directory / "done").exists():
                time.sleep(0.01)
            return "left"
        if step == 40:
            (directory / "alone").touch()
        time.sleep(0.001)
    try:
        run.finish()
        said = "saved"
    except CheckpointError as error:
        said = str(error)
    (directory / "done").touch()
    return f"{said} after {time.monotonic() - told_at:.0f} s"


def through_a_deletion(directory: Path) -> str:
    """Save each step, while the directory is deleted after the fifth; what `finish` said."""
    model = Level()
    run = Run(checkpoints=Checkpoints(directory, every_steps=1), state={"model": model})
    for step in range(run.restore(), 10):
        model.rise(step)
        run.step(step)
        if step == 5 and torch.distributed.get_rank() == 0:
            shutil.rmtree(directory, ignore_errors=True)
    return finished(run)


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


def sharded(directory: Path, steps: int) -> tuple[int, str]:
    """As `plain`, with all that can be sharded over the ranks; some get nothing of it."""
    if not torch.distributed.is_initialized():
        meeting = f"file://{directory}-meeting-{os.getpid()}"
        torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    model = small()
    fully_shard(model, mesh=init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
    return trained(directory, model, steps)


def plain(directory: Path, steps: int) -> tuple[int, str]:
    """Train in one process until so many steps are done: where it began, all parameters."""
    return trained(directory, small(), steps)


def small() -> nn.Module:
    """A model of two layers; the second has a single row."""
    return nn.Sequential(nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 1))


def trained(
    directory: Path, model: nn.Module, steps: int, *, per_node: bool = False
) -> tuple[int, str]:
    """Do the steps, all ranks with the same data, and say where *model* began and ended."""
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.fill_(0.01 * (number + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    run = Run(checkpoints=Checkpoints(directory, per_node=per_node), state=state)
    start = run.restore()
    for step in range(start, steps):
        inputs = torch.rand(4, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        run.step(step, loss=loss)
    run.finish()
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    values = {name: one.tolist() for name, one in whole.items() if torch.is_tensor(one)}
    return start, str(values)


def draw(directory: Path, start_seed: int, steps: int) -> list[object]:
    """What this rank draws after restoring: sampler, Python, numpy, torch."""
    import numpy as np  # noqa: PLC0415 - only this job uses it

    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    random.seed(start_seed + rank)
    np.random.seed(start_seed + rank)  # noqa: NPY002 - the one that is saved
    torch.manual_seed(start_seed + rank)
    sampler = Sampler(start_seed + rank)
    state: dict[str, Any] = {"model": Level(), "sampler": sampler, "best": 0.0}
    run = Run(checkpoints=Checkpoints(directory), state=state)
    for step in range(run.restore(), steps):
        random.random()
        sampler.next()
        state["best"] = step + 0.5
        run.step(step)
    run.finish()
    return [
        state["best"],
        sampler.next(),
        random.random(),
        np.random.rand(),  # noqa: NPY002 - the one that is saved
        float(torch.rand(1)),
    ]


def restore_only(directory: Path) -> str:
    """What `restore` says, the start or its error."""
    try:
        run = Run(checkpoints=Checkpoints(directory), state={"model": Level()})
        return f"start {run.restore()}"
    except CheckpointError as error:
        return str(error)


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


def stopped_before_it_names(directory: Path) -> str:
    """Save step 0, stopping for a while once all of it is on disk but for its name; what is said."""
    os.environ["SLURM_JOB_ID"] = "7"
    run = Run(checkpoints=Checkpoints(directory, every_steps=1), state={"who": "first"})
    run.restore()
    syncs = itertools.count(1)

    def look(event: str, arguments: tuple[object, ...]) -> None:
        is_sync = event == "open" and Path(str(arguments[0])).name.startswith(".saving-")
        if is_sync and next(syncs) == 2:
            os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(look)
    run.step(0)
    return finished(run)


class FailsOnce:
    """A user's own, which raises what nobody expects at its second call, on rank 1."""

    calls = 0

    def state_dict(self) -> dict[str, Any]:
        self.calls += 1
        if self.calls == 2 and torch.distributed.get_rank() == 1:
            raise ValueError("not now")
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to load."""


def with_trouble_on_one(directory: Path, where: str) -> str:
    """Save steps 0 to 3, where rank 1 meets what nobody expects in the first; what `finish` said."""
    sampler = FailsOnce() if where == "state_dict" else Sampler(1)
    run = Run(
        checkpoints=Checkpoints(directory, every_steps=1, keep=9), state={"sampler": sampler}
    )
    run.restore()
    troubles = iter([ValueError("not now")])

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith("rank-00001.values"):
            for trouble in troubles:
                raise trouble

    if where == "writer":
        sys.addaudithook(look)
    for step in range(4):
        run.step(step)
    return finished(run)


def finished(run: Run) -> str:
    """What `finish` says."""
    try:
        run.finish()
    except CheckpointError as error:
        return str(error)
    return "saved"


def without_copier(directory: Path, copies: Path) -> str:
    """Save two steps, the copier being killed and no process more to be had; what `finish` said."""
    checkpoints = Checkpoints(directory, every_steps=1, copies=f"file://{copies}")
    run = Run(checkpoints=checkpoints, state={"model": Level()})
    run.restore()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    wait_for(lambda: all(is_over(int(child)) for child in children))

    def look(event: str, _: tuple[object, ...]) -> None:
        if event == "subprocess.Popen":
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    sys.addaudithook(look)
    for step in range(2):
        run.step(step)
    try:
        run.finish()
    except CheckpointError as error:
        return str(error)
    return f"saved, {len(children)} copier killed"


def is_over(pid: int) -> bool:
    """Whether a child has ended, and nobody has asked how."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def through_a_write_that_hangs(directory: Path) -> str:
    """
    Save until a save counts that came after one in which rank 1 hung, until the others gave it up.

    What `finish` said.
    """
    rank, given_up = torch.distributed.get_rank(), directory / "given-up"
    run = Run(
        checkpoints=Checkpoints(directory, every_steps=1, keep=99, if_busy="skip"),
        state={"model": Level()},
        timeout_minutes=0.05,
    )
    run.restore()
    writes = itertools.count(1)

    def look(event: str, arguments: tuple[object, ...]) -> None:
        is_write = event == "open" and str(arguments[0]).endswith("rank-00001.tensors")
        if is_write and next(writes) == 2:
            wait_for(given_up.exists)

    class GivesUp(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "is not saved" in record.getMessage():
                given_up.write_text(str(record.args))

    if rank == 1:
        sys.addaudithook(look)
    else:
        logging.getLogger("slurm_resilience").addHandler(GivesUp())
    before: list[Path] = []
    for step in itertools.count():
        run.step(step)
        here = list(directory.glob("step-*"))
        before = before if given_up.exists() else here
        is_new = torch.tensor([int(rank == 0 and len(here) > len(before))])
        torch.distributed.all_reduce(is_new)
        if given_up.exists() and is_new:
            break
    return finished(run)


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


def with_much(directory: Path, size_bytes: int) -> str:
    """What `finish` says to a state of that size, none of which is ever touched."""
    state = {"x": torch.empty(size_bytes, dtype=torch.uint8)}
    run = Run(checkpoints=Checkpoints(directory), state=state)
    run.restore()
    run.step(0)
    return finished(run)


def closed_too_early(directory: Path, log_file: Path) -> None:
    """Save step 0, close, and destroy the process group while that save is under way."""
    logging.basicConfig(filename=log_file)
    run = Run(checkpoints=Checkpoints(directory, every_steps=1), state={"model": Level()})
    run.restore()
    is_destroyed = threading.Event()

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith(".tensors"):
            is_destroyed.wait(30)

    sys.addaudithook(look)
    run.step(0)
    run.close()
    torch.distributed.destroy_process_group()
    is_destroyed.set()
    atexit._run_exitfuncs()  # noqa: SLF001 - a process of a fork server ends without


def saved_at_the_second_try(directory: Path) -> str:
    """The last step's save fails once; what `finish` said."""
    run = Run(checkpoints=Checkpoints(directory, every_steps=1), state={"model": Level()})
    run.restore()
    troubles = iter([OSError(errno.EIO, os.strerror(errno.EIO))])

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith("rank-00001.values"):
            for trouble in troubles:
                raise trouble

    sys.addaudithook(look)
    run.step(0)
    return finished(run)
