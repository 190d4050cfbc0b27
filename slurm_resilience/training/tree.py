"""
State as data: numbers, texts and containers to msgpack and back, tensors by name.

Nothing is pickled, so nothing has to be trusted when it is read. What cannot be written that way
is refused when saving, not found out when it is needed.

Scalars stand for themselves. Everything else is a list whose first item names its kind:
`["list", …]`, `["dict", key, value, …]`, `["tensor", name]`, and so on.
"""

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any

import msgspec
import torch

from slurm_resilience.errors import CheckpointLoadError, UsageError

Keep = Callable[[str, torch.Tensor], str]
"""Takes a tensor and its place; the name that it is kept under."""

SCALARS = frozenset({NoneType, bool, float, str, bytes})
SEQUENCES: dict[type, str] = {
    list: "list",
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
    torch.Size: "size",
}
MAPPINGS: dict[type, str] = {dict: "dict", OrderedDict: "ordered", Counter: "counter"}
NUMBERS = "biufc"
"""Numpy's kinds of numbers; its objects are pickles."""


def encoded(value: object, place: str, keep: Keep) -> bytes:
    """
    *value* as msgpack; each tensor in it is handed to *keep* with its place, `place/key/…`.

    Raises `UsageError` that names the place and type of what cannot be saved.
    """
    return msgspec.msgpack.encode(_node(value, place, keep))


def decoded(data: bytes, tensor: Callable[[str], torch.Tensor]) -> Any:  # noqa: ANN401 - anything
    """The value behind `encoded`; *tensor* finds tensors by name. Raises `CheckpointLoadError`."""
    try:
        return _value(msgspec.msgpack.decode(data), tensor)
    except (
        msgspec.DecodeError, RecursionError, ValueError, TypeError, LookupError, RuntimeError,
    ) as error:  # fmt: skip
        raise CheckpointLoadError(f"not a state: {error!r}") from error


def dtype(name: str) -> torch.dtype:
    """The torch dtype of that name; `ValueError` where there is none."""
    found = getattr(torch, name, None) if name.isidentifier() else None
    if not isinstance(found, torch.dtype):
        raise ValueError(f"unknown dtype {name[:40]!r}")  # noqa: TRY004 - a wrong value in a file
    return found


def _node(value: Any, place: str, keep: Keep) -> object:  # noqa: ANN401 - anything
    # By exact type: a subclass (an enum, a named tuple) would come back as something else.
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind in SEQUENCES:
        parts = (_node(item, f"{place}/{at}", keep) for at, item in enumerate(value))
        return [SEQUENCES[kind], *parts]
    if kind in MAPPINGS:
        return [MAPPINGS[kind], *_pairs(value.items(), place, keep)]
    if isinstance(value, torch.Tensor):
        return ["tensor", keep(place, value)]
    return _leaf(value, place)


def _pairs(items: Iterable[tuple[object, object]], place: str, keep: Keep) -> Iterable[object]:
    for key, value in items:
        yield _node(key, place, keep)
        yield _node(value, f"{place}/{key}", keep)


def _leaf(value: Any, place: str) -> object:  # noqa: ANN401 - anything
    numpy = sys.modules.get("numpy")
    if type(value) is int:
        return value if -(2**63) <= value < 2**63 else ["int", hex(value)]
    if isinstance(value, torch.dtype):
        return ["dtype", str(value).removeprefix("torch.")]
    if isinstance(value, torch.device):
        return ["device", str(value)]
    if type(value) is complex:
        return ["complex", value.real, value.imag]
    if (
        numpy
        and isinstance(value, numpy.ndarray | numpy.generic)
        and value.dtype.kind in NUMBERS
    ):
        kind = "array" if isinstance(value, numpy.ndarray) else "number"
        return [kind, value.dtype.str, value.tobytes(), *value.shape]
    raise UsageError(
        f"state {place} is a {type(value).__module__}.{type(value).__qualname__}, which a "
        "checkpoint cannot hold; make it of numbers, texts, lists, dicts and tensors"
    )


def _value(node: object, tensor: Callable[[str], torch.Tensor]) -> object:
    if not isinstance(node, list):
        return node
    kind, *parts = node
    if kind == "tensor":
        return tensor(parts[0])
    return BUILDERS[kind]([_value(part, tensor) for part in parts])


def _paired(parts: list[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(parts[::2], parts[1::2], strict=True)


def _array(parts: list[Any]) -> Any:  # noqa: ANN401 - numpy's
    import numpy as np  # noqa: PLC0415 - torch does not need it

    wanted = np.dtype(parts[0])
    if wanted.kind not in NUMBERS:
        raise ValueError(f"numpy type {parts[0][:40]!r}")
    return np.frombuffer(parts[1], dtype=wanted).reshape(parts[2:]).copy()


BUILDERS: dict[str, Callable[[list[Any]], object]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "size": torch.Size,
    "dict": lambda parts: dict(_paired(parts)),
    "ordered": lambda parts: OrderedDict(_paired(parts)),
    "counter": lambda parts: Counter(dict(_paired(parts))),
    "int": lambda parts: int(parts[0], 16),
    "dtype": lambda parts: dtype(parts[0]),
    "device": lambda parts: torch.device(parts[0]),
    "complex": lambda parts: complex(*parts),
    "array": _array,
    "number": lambda parts: _array(parts)[()],
}
