"""Where in a rank's block, and so in its file of tensors, each of its pieces lies."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

ALIGNMENT = 64


class Layout(NamedTuple):
    """First bytes of the pieces, in their order, and the length of it all."""

    places: list[int]
    size_bytes: int


def layout(pieces: Sequence[tuple[torch.Size, torch.dtype]]) -> Layout:
    """One piece after the other, the same wherever it is asked for."""
    ends = [0]
    for shape, dtype in pieces:
        size_bytes = shape.numel() * dtype.itemsize
        ends.append(-(-(ends[-1] + size_bytes) // ALIGNMENT) * ALIGNMENT)
    return Layout(ends[:-1], ends[-1])
