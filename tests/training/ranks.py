"""Real ranks for tests: processes over gloo, forked from a server that has torch loaded."""

import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from slurm_resilience.watch.heartbeat import DIRECTORY_VARIABLE

Job = Callable[..., object]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.training.ranks", "slurm_resilience.training"])


class Place(NamedTuple):
    """Where a rank stands among its peers."""

    rank: int
    world_size: int
    store: Path
    heartbeats: Path

    def environment(self) -> dict[str, str]:
        """As torchrun and the agent set it."""
        return {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            DIRECTORY_VARIABLE: str(self.heartbeats),
        }


class Ranks:
    """A job on some ranks; what each returned, once it has ended."""

    def __init__(self, job: Job, *arguments: object, world_size: int, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        store = folder / f"store-{time.monotonic_ns()}"
        self.heartbeats = folder
        self._answers: list[Connection] = []
        self.processes = []
        for rank in range(world_size):
            answer, mine = _context.Pipe(duplex=False)
            process = _context.Process(
                target=_rank,
                args=(mine, Place(rank, world_size, store, folder), job, arguments),
            )
            process.start()
            mine.close()
            self._answers.append(answer)
            self.processes.append(process)

    def results(self, *, ranks: int | None = None, within_s: float = 60.0) -> list[Any]:
        """
        What each rank, or the first *ranks*, returned; None for one that was killed.

        Fails past *within_s*.
        """
        deadline = time.monotonic() + within_s
        answers = []
        for process, answer in list(zip(self.processes, self._answers, strict=True))[:ranks]:
            assert answer.poll(deadline - time.monotonic()), "a rank does not come back"
            try:
                answers.append(answer.recv())
            except EOFError:
                answers.append(None)
            process.join(deadline - time.monotonic())
            assert process.exitcode is not None, "a rank does not end"
        return answers

    def __enter__(self) -> "Ranks":  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End what is left."""
        for process in self.processes:
            process.kill()
            process.join()


def on_ranks(job: Job, *arguments: object, world_size: int, folder: Path) -> list[Any]:
    """What *job* returns on each rank."""
    with Ranks(job, *arguments, world_size=world_size, folder=folder) as ranks:
        return ranks.results()


def wait_for(condition: Callable[[], object], *, within_s: float = 30.0) -> None:
    """Until *condition* holds; fails past *within_s*."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {condition}"
        time.sleep(0.002)


def _rank(answer: Connection, place: Place, job: Job, arguments: tuple[object, ...]) -> None:
    torch.set_num_threads(1)
    os.environ.update(place.environment())
    if place.world_size > 1:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{place.store}",
            rank=place.rank,
            world_size=place.world_size,
        )
    answer.send(job(*arguments))
    answer.close()
