"""
One block of host memory into which a save copies what this rank will write, so that training goes
on while it is written. Reused from save to save.
"""

import logging
import mmap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from slurm_resilience.errors import CheckpointError
from slurm_resilience.training.layout import layout
from slurm_resilience.training.memory import available_bytes

log = logging.getLogger(__name__)

PORTABLE = 1
"""cudaHostRegisterPortable."""
GIB = 1 << 30


class Staging:
    """A block as large as the largest save so far, and the places of the tensors in it."""

    def __init__(self, sharers: int) -> None:
        """*sharers*: ranks on this node, each with a block of its own."""
        self._sharers = sharers
        self._block: mmap.mmap | None = None
        self._pinned_at: int | None = None
        self._pieces: list[tuple[torch.Size, torch.dtype]] = []
        self._views: list[torch.Tensor] = []

    @property
    def views(self) -> list[torch.Tensor]:
        """The copies of the last `fill`."""
        return self._views

    def fill(self, tensors: Sequence[torch.Tensor]) -> memoryview:
        """
        Copies of *tensors*, one after the other, each at its place.

        On return they are frozen: what happens to the tensors afterwards is not in the copy. The
        next `fill` overwrites it. Raises `CheckpointError` where there is not enough memory for it.
        """
        pieces = [(tensor.shape, tensor.dtype) for tensor in tensors]
        size_bytes = self._arrange(pieces, pinned=any(tensor.is_cuda for tensor in tensors))
        for view, tensor in zip(self._views, tensors, strict=True):
            view.copy_(tensor.detach(), non_blocking=True)
        if any(tensor.is_cuda for tensor in tensors):
            torch.cuda.current_stream().synchronize()
        return memoryview(self._block or b"")[:size_bytes]

    def _arrange(self, pieces: list[tuple[torch.Size, torch.dtype]], *, pinned: bool) -> int:
        places, size_bytes = layout(pieces)
        if pieces != self._pieces:
            self._views, self._pieces = [], []  # before the block: they hold it
            block = self._sized(size_bytes, pinned=pinned)
            self._views = [
                _view(block, at, shape, dtype)
                for at, (shape, dtype) in zip(places, pieces, strict=True)
            ]
            self._pieces = pieces
        return size_bytes

    def _sized(self, size_bytes: int, *, pinned: bool) -> torch.Tensor:
        if self._block is None or len(self._block) < size_bytes:
            self._unpin()
            self._block = None  # first, so that there are never two
            _look_for(size_bytes, self._sharers)
            # Private and not inherited: a forked child would make later copies pay for new pages.
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            self._block = mmap.mmap(-1, max(size_bytes, mmap.PAGESIZE), flags=flags)
            self._block.madvise(mmap.MADV_DONTFORK)
            with suppress(
                OSError
            ):  # a kernel without: the first copy then waits for every page
                self._block.madvise(mmap.MADV_HUGEPAGE)
            if pinned:
                self._pin(self._block)
        return torch.frombuffer(self._block, dtype=torch.uint8)

    def _pin(self, block: mmap.mmap) -> None:
        # Not pin_memory=True: torch rounds that up to the next power of two.
        address = torch.frombuffer(block, dtype=torch.uint8).data_ptr()
        code = int(_cuda().cudaHostRegister(address, len(block), PORTABLE))
        if code:
            log.warning("host memory cannot be pinned (CUDA error %d): saves are slower", code)
        else:
            self._pinned_at = address

    def _unpin(self) -> None:
        if self._pinned_at is not None:
            _cuda().cudaHostUnregister(self._pinned_at)
            self._pinned_at = None


def _look_for(size_bytes: int, ranks: int) -> None:
    # Before a page of it is touched: the kernel does not refuse, it kills.
    needed = size_bytes * ranks
    available = available_bytes()
    if available is not None and needed > available:
        raise CheckpointError(
            f"{_spelled(needed)} are needed on this node ({ranks} ranks), "
            f"{_spelled(available)} are left to this job"
        )


def _spelled(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes >> 20} MiB"


def _cuda() -> Any:  # noqa: ANN401 - a module made by the binding
    return torch.cuda.cudart()


def _view(block: torch.Tensor, at: int, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    size_bytes = shape.numel() * dtype.itemsize
    return block[at : at + size_bytes].view(dtype).view(shape)
