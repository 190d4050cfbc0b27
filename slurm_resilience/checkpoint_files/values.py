"""What a file of values has to be like, as far as that can be told without torch."""

from typing import Any

import msgspec

from slurm_resilience.errors import CheckpointLoadError

SUFFIX = ".values"
MOST_BYTES = 64 << 20
"""Larger ones hold large arrays, and are not taken apart only to be looked at."""
KINDS = frozenset({
    "list", "tuple", "set", "frozenset", "size", "dict", "ordered", "counter",
    "int", "dtype", "device", "complex", "array", "number", "tensor",
})  # fmt: skip
"""What a list in it may begin with."""


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of `training.state.Values`."""

    parts: dict[str, bytes]
    rng: bytes
    environment: dict[str, Any] | None = None


def check(data: bytes) -> None:
    """Raise `CheckpointLoadError` where *data* cannot be the values of a rank."""
    try:
        shape = msgspec.msgpack.decode(data, type=Shape)
        for part in (*shape.parts.values(), shape.rng):
            _check(msgspec.msgpack.decode(part))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CheckpointLoadError(f"no values of a rank: {error}") from error


def _check(node: object) -> None:
    left = [node]
    while left:
        one = left.pop()
        if isinstance(one, list):
            if not (one and isinstance(one[0], str) and one[0] in KINDS):
                raise ValueError("a list of no kind that is known")
            left += one[1:]
