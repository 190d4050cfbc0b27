"""The state that is saved for the checkpoint figures, and the plain ways to move as many bytes."""

import ctypes
import os
import resource
import time
from pathlib import Path

import torch
from torch import nn

TENSOR_BYTES = 16 << 20
WRITE_BYTES = 8 << 20


class Weights(nn.Module):
    """Tensors of 16 MB each, filled with what does not compress; the same for the same *seed*."""

    def __init__(self, size_bytes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        for number in range(max(1, size_bytes // TENSOR_BYTES)):
            tensor = torch.randn(TENSOR_BYTES // 4, generator=generator)
            self.register_parameter(f"w{number}", nn.Parameter(tensor, requires_grad=False))
        self.room: list[torch.Tensor] = []

    def tensors(self) -> list[torch.Tensor]:
        """All of them."""
        return [parameter.detach() for parameter in self.parameters()]

    def first(self) -> torch.Tensor:
        """The first of them."""
        return self.tensors()[0]

    def change(self, step: int) -> None:
        """As a step of training does."""
        for tensor in self.tensors():
            tensor[0] = step

    def per_rank(self) -> dict[str, torch.Tensor]:
        """As a state that each rank has for itself."""
        return {f"w{number}": tensor for number, tensor in enumerate(self.tensors())}


def copied_s(weights: Weights) -> float:
    """Seconds of a plain copy into memory that is there already."""
    if not weights.room:
        weights.room = [tensor.clone() for tensor in weights.tensors()]
    began = time.perf_counter()
    for room, tensor in zip(weights.room, weights.tensors(), strict=True):
        room.copy_(tensor)
    return time.perf_counter() - began


def raw_s(path: Path, weights: Weights) -> float:
    """Seconds of writing the same bytes to one new file, and of its fsync."""
    # The one before goes now and not at once: the next writer takes the memory that it leaves,
    # which is cheaper than fresh memory in a virtual machine.
    path.unlink(missing_ok=True)
    began = time.perf_counter()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    for tensor in weights.tensors():
        memory = memoryview((ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr()))
        for at in range(0, tensor.nbytes, WRITE_BYTES):
            os.write(descriptor, memory[at : at + WRITE_BYTES])
    os.fsync(descriptor)
    took_s = time.perf_counter() - began
    os.close(descriptor)
    return took_s


def forget(path: Path) -> None:
    """Drop what the page cache holds of all files beneath *path*."""
    on_disk(path, forget=True)


def on_disk(path: Path, *, forget: bool = False) -> None:
    """Fsync all files beneath *path*."""
    for file in path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            if forget:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def rss_mb() -> float:
    """Megabytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / (1 << 20)
