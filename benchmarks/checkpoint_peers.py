"""The same for what a team has without us: torch.save, torch.distributed.checkpoint, NVRx."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from benchmarks.checkpoint_state import Weights, copied_s, forget, on_disk, raw_s, rss_mb

Begin = Callable[[Weights, Path], Callable[[], object]]
"""Begins a save; what it returns waits for its end."""


def _torch_save(weights: Weights, path: Path) -> Callable[[], object]:
    path.mkdir()
    torch.save(weights.state_dict(), path / "state.pt")
    return lambda: None


def _dcp_save(weights: Weights, path: Path) -> Callable[[], object]:
    save(weights.per_rank(), checkpoint_id=str(path), no_dist=not dist.is_initialized())
    return lambda: None


def _dcp_async(weights: Weights, path: Path) -> Callable[[], object]:
    answer: Any = async_save(weights.per_rank(), checkpoint_id=str(path))
    return answer.result if isinstance(answer, Future) else answer.upload_completion.result


PEERS: dict[str, Begin] = {
    "torch.save": _torch_save,
    "dcp.save": _dcp_save,
    "dcp.async_save": _dcp_async,
}


def saves(peer: str, directory: Path, size_bytes: int, count: int) -> tuple[float, ...]:
    """Medians: seconds of stall, of a plain copy, until it is on disk, of a raw write."""
    rank = _met()
    weights = Weights(size_bytes, rank)
    rows = []
    for step in range(count + 1):
        weights.change(step)
        shutil.rmtree(directory / f"{peer}-{step - 1}", ignore_errors=True)
        copy_s, raw = copied_s(weights), raw_s(directory / f"raw-{rank}", weights)
        began = time.perf_counter()
        wait = PEERS[peer](weights, directory / f"{peer}-{step}")
        stood = time.perf_counter()
        wait()
        on_disk(directory / f"{peer}-{step}")
        rows.append((stood - began, copy_s, time.perf_counter() - began, raw))
    return tuple(statistics.median(column) for column in zip(*rows[1:], strict=True))


def growth_mb(peer: str, directory: Path, size_bytes: int, count: int) -> float:
    """By how much the process grows over *count* saves, after the first ten."""
    _met()
    weights = Weights(size_bytes, 0)
    before_mb = 0.0
    for step in range(count + 10):
        if step == 10:  # noqa: PLR2004 - allocators have settled
            before_mb = rss_mb()
        path = directory / f"{peer}-{step}"
        PEERS[peer](weights, path)()
        for file in path.iterdir():
            file.unlink()
    return rss_mb() - before_mb


def saved(directory: Path, size_bytes: int) -> int:
    """One file of torch.save's, and one checkpoint of torch.distributed.checkpoint's."""
    weights = Weights(size_bytes, 0)
    torch.save(weights.state_dict(), directory / "state.pt")
    save({"model": weights.state_dict()}, checkpoint_id=str(directory / "dcp"), no_dist=True)
    forget(directory)
    return 0


def torch_load_s(directory: Path, size_bytes: int) -> float:
    """Seconds from a fresh model to a filled one with torch.load."""
    weights = Weights(size_bytes, 1)
    began = time.perf_counter()
    weights.load_state_dict(torch.load(directory / "state.pt", weights_only=True))
    return time.perf_counter() - began


def dcp_load_s(directory: Path, size_bytes: int) -> float:
    """The same with torch.distributed.checkpoint."""
    weights = Weights(size_bytes, 1)
    began = time.perf_counter()
    state = {"model": weights.state_dict()}
    load(state, checkpoint_id=str(directory / "dcp"), no_dist=True)
    weights.load_state_dict(state["model"])
    return time.perf_counter() - began


def _met() -> int:
    if not dist.is_initialized():
        with tempfile.TemporaryDirectory() as folder:
            dist.init_process_group(
                "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1
            )
    return dist.get_rank()
