"""Processes for the checkpoint figures: each measurement in fresh ones, so that none warms the next."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

LONGEST_S = 600.0
_context = multiprocessing.get_context("spawn")


def alone(measure: Callable[..., object], *arguments: object) -> Any:  # noqa: ANN401 - its answer
    """What *measure* returns in a process of its own."""
    return together(measure, *arguments, ranks=1)[0]


def together(measure: Callable[..., object], *arguments: object, ranks: int) -> list[Any]:
    """What *measure* returns on each of some ranks that are connected over gloo."""
    with tempfile.TemporaryDirectory() as folder:
        store, pairs = Path(folder) / "store", []
        for rank in range(ranks):
            answer, mine = _context.Pipe(duplex=False)
            process = _context.Process(
                target=_rank, args=(mine, rank, ranks, store, measure, arguments)
            )
            process.start()
            mine.close()
            pairs.append((process, answer))
        answers = []
        for process, answer in pairs:
            if not answer.poll(LONGEST_S):
                process.kill()
                raise SystemExit(f"benchmarks: {measure.__name__} does not come back")
            answers.append(answer.recv())
            process.join()
        return answers


def _rank(  # noqa: PLR0913, PLR0917 - what a process is told
    answer: Connection,
    rank: int,
    ranks: int,
    store: Path,
    measure: Callable[..., object],
    arguments: tuple[object, ...],
) -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
    if ranks > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks
        )
    answer.send(measure(*arguments))
    answer.close()
