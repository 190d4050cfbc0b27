"""What `slurm_resilience.training` takes to save and to restore, watched from outside."""

import statistics
import time
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist

from benchmarks.checkpoint_state import Weights, copied_s, raw_s, rss_mb
from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.training import Checkpoints, Run

LONGEST_S = 120.0


class Saves(NamedTuple):
    """Medians over some saves, and over as many plain copies and writes between them."""

    first_stall_s: float
    stall_s: float
    copy_s: float
    persist_s: float
    """From the end of the stall until the checkpoint has its name."""
    proved_s: float
    """Until it has been read back too, and the one before is gone."""
    raw_s: float


def saves(directory: Path, size_bytes: int, count: int) -> Saves:
    """Save each step; every rank has weights of its own, of *size_bytes*."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    weights = Weights(size_bytes, rank)
    run = Run(
        checkpoints=Checkpoints(directory, every_steps=1, keep=1), state=weights.per_rank()
    )
    run.restore()
    rows = []
    for step in range(count + 1):
        weights.change(step)
        _meet()
        copy_s = copied_s(weights)
        _meet()
        raw = raw_s(directory / f"raw-{rank}", weights)
        _meet()
        began = time.perf_counter()
        run.step(step)
        stood = time.perf_counter()
        path = directory / directory_name(step)
        _wait_until(path / manifests.NAME, there=True)
        named = time.perf_counter()
        if step:
            _wait_until(directory / directory_name(step - 1), there=False)
        rows.append((stood - began, copy_s, named - stood, time.perf_counter() - stood, raw))
        _meet()
    run.close()
    columns = [statistics.median(column) for column in zip(*rows[1:], strict=True)]
    return Saves(rows[0][0], *columns)


def growth_mb(directory: Path, size_bytes: int, count: int) -> float:
    """By how much the process grows over *count* saves, after the first ten."""
    weights = Weights(size_bytes, 0)
    run = Run(
        checkpoints=Checkpoints(directory, every_steps=1, keep=1), state=weights.per_rank()
    )
    run.restore()
    before_mb = 0.0
    for step in range(count + 10):
        run.step(step)
        if step == 10:  # noqa: PLR2004 - allocators have settled
            _wait_until(directory / directory_name(step - 1), there=False)
            before_mb = rss_mb()
    _wait_until(directory / directory_name(count + 8), there=False)
    grown_mb = rss_mb() - before_mb
    run.finish(save=False)
    return grown_mb


def extra_copies(directory: Path, size_bytes: int) -> float:
    """Host memory that saving takes, in sizes of the state."""
    weights = Weights(size_bytes, 0)
    run = Run(
        checkpoints=Checkpoints(directory, every_steps=1, keep=1), state=weights.per_rank()
    )
    run.restore()
    before_mb = rss_mb()
    for step in range(3):
        run.step(step)
    _wait_until(directory / directory_name(2) / manifests.NAME, there=True)
    grown_mb = rss_mb() - before_mb
    run.finish(save=False)
    return grown_mb * (1 << 20) / size_bytes


def step_us(directory: Path, count: int) -> float:
    """Median microseconds of `run.step` with nothing due."""
    run = Run(checkpoints=Checkpoints(directory, every_steps=1 << 40), state={"n": 1})
    run.restore()
    took = []
    for step in range(count):
        began = time.perf_counter_ns()
        run.step(step)
        took.append(time.perf_counter_ns() - began)
    run.close()
    return statistics.median(took) / 1000


def restored_s(directory: Path, size_bytes: int) -> float:
    """Seconds from a fresh model to a verified, filled one."""
    weights = Weights(size_bytes, 1)
    run = Run(checkpoints=Checkpoints(directory), state={"model": weights})
    began = time.perf_counter()
    start = run.restore()
    took_s = time.perf_counter() - began
    run.close()
    if not start or not torch.equal(weights.first(), Weights(1, 0).first()):
        raise SystemExit("benchmarks.checkpoint: the restored state is not what was saved")
    return took_s


def saved(directory: Path, size_bytes: int) -> int:
    """One checkpoint of a model."""
    run = Run(checkpoints=Checkpoints(directory), state={"model": Weights(size_bytes, 0)})
    run.step(run.restore())
    run.finish()
    return 0


def _meet() -> None:
    if dist.is_initialized():
        dist.barrier()


def _wait_until(path: Path, *, there: bool) -> None:
    deadline = time.monotonic() + LONGEST_S
    while path.exists() != there:
        if time.monotonic() > deadline:
            raise SystemExit(f"benchmarks.checkpoint: {path}: nothing happens")
        time.sleep(0.001)
