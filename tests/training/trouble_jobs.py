"""What the ranks of a test do among which something goes wrong while they train."""

import atexit
import errno
import itertools
import logging
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

from slurm_resilience.errors import CheckpointError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.watch.heartbeat import DIRECTORY_VARIABLE
from tests.training.jobs import Level, Sampler, finished
from tests.training.ranks import wait_for


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
