"""
One block of host memory into which a save copies what this rank will write, so that training goes
on while it is written. Reused from save to save.
"""

import logging
import mmap
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch

from slurm_resilience.errors import CheckpointError
from slurm_resilience.training.layout import Layout, layout
from slurm_resilience.training.memory import Memory
from slurm_resilience.training.peers import Failure, Peers

log = logging.getLogger(__name__)

PORTABLE = 1
"""cudaHostRegisterPortable."""

Pieces = list[tuple[torch.Size, torch.dtype]]


class Staging:
    """A block as large as the largest save so far, and the places of the tensors in it."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self.memory = Memory(peers)
        """What the block is taken of."""
        self._block: mmap.mmap | None = None
        self._unpin: Callable[[], object] | None = None
        self._pieces: Pieces = []
        self._views: list[torch.Tensor] = []

    @property
    def views(self) -> list[torch.Tensor]:
        """The copies of the last `filled`."""
        return self._views

    def filled(self, take: Callable[[], Sequence[torch.Tensor]]) -> memoryview | Failure:
        """
        Copies of the tensors that *take* gives, one after the other, each at its place; or why there
        are none.

        Every rank has to come here, after `memory.look`. On return they are frozen: what happens to
        the tensors afterwards is not in the copy. The next `filled` overwrites it. Raises
        `CheckpointError` on all ranks where one fails before memory was first taken.
        """
        tensors = self._peers.tried(take)
        if isinstance(tensors, Failure):
            self.memory.refusal(tensors)
            return tensors
        pieces = [(tensor.shape, tensor.dtype) for tensor in tensors]
        laid = layout(pieces)
        # Before a page of it is touched: the kernel does not refuse, it kills.
        refusal = self.memory.refusal(max(0, laid.size_bytes - len(self._block or b"")))
        return self._peers.tried(lambda: self._fill(tensors, pieces, laid, refusal))

    def _fill(
        self, tensors: Sequence[torch.Tensor], pieces: Pieces, laid: Layout, refusal: str
    ) -> memoryview:
        if refusal:
            raise CheckpointError(refusal)
        devices = cuda_devices(tensors)
        self._arrange(pieces, laid, next(iter(devices), None))
        for view, tensor in zip(self._views, tensors, strict=True):
            # How to wait for a device of another kind is not known here.
            view.copy_(tensor.detach(), non_blocking=tensor.is_cuda)
        for device in devices:
            torch.cuda.current_stream(device).synchronize()
        return memoryview(self._block or b"")[: laid.size_bytes]

    def _arrange(self, pieces: Pieces, laid: Layout, device: torch.device | None) -> None:
        if pieces == self._pieces:
            return
        self._views, self._pieces = [], []  # before the block: they hold it
        block = self._sized(laid.size_bytes, device)
        self._views = [
            _view(block, at, shape, dtype)
            for at, (shape, dtype) in zip(laid.places, pieces, strict=True)
        ]
        self._pieces = pieces

    def _sized(self, size_bytes: int, device: torch.device | None) -> torch.Tensor:
        if self._block is None or len(self._block) < size_bytes:
            if self._unpin:
                self._unpin()
            self._block = self._unpin = None  # first, so that there are never two
            # Private and not inherited: a forked child would make later copies pay for new pages.
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            self._block = mmap.mmap(-1, max(size_bytes, mmap.PAGESIZE), flags=flags)
            self._block.madvise(mmap.MADV_DONTFORK)
            with suppress(OSError):  # a kernel without: the first copy waits for every page
                self._block.madvise(mmap.MADV_HUGEPAGE)
            if device:
                self._unpin = pin(self._block, device, self)
        return torch.frombuffer(self._block, dtype=torch.uint8)


def pin(block: mmap.mmap, device: torch.device, owner: object) -> Callable[[], object] | None:
    """
    Keep *block* where GPUs can copy to it at once, until what comes back is called or *owner* goes.

    *device*: one that is in use; on another CUDA would take memory. None where it cannot, which is
    said.
    """
    # Not pin_memory=True: torch rounds that up to the next power of two.
    address = torch.frombuffer(block, dtype=torch.uint8).data_ptr()
    with torch.cuda.device(device):
        code = int(_cuda().cudaHostRegister(address, len(block), PORTABLE))
    if code:
        log.warning("host memory cannot be pinned (CUDA error %d): saves are slower", code)
        with suppress(RuntimeError):  # CUDA blames the next kernel for it: not the training's
            torch.ones(1, device=device)
        return None
    # Also with its owner, as the process may stay: CUDA would keep the pages.
    unpin = weakref.finalize(owner, _cuda().cudaHostUnregister, address)
    unpin.atexit = False
    return unpin


def cuda_devices(tensors: Iterable[torch.Tensor]) -> set[torch.device]:
    """The GPUs that *tensors* are on: each copies on a stream of its own."""
    return {tensor.device for tensor in tensors if tensor.is_cuda}


def _cuda() -> Any:  # noqa: ANN401 - a module made by the binding
    return torch.cuda.cudart()


def _view(block: torch.Tensor, at: int, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    size_bytes = shape.numel() * dtype.itemsize
    return block[at : at + size_bytes].view(dtype).view(shape)
