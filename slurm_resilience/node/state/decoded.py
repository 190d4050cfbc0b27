"""What was kept, as values; nothing of it is believed that does not decode."""

from typing import TypeVar

import msgspec

_T = TypeVar("_T")


def decoded(raw: bytes | None, kind: type[_T]) -> _T | None:
    """The value that was kept; None where there is none, or none that this version understands."""
    try:
        return msgspec.json.decode(raw, type=kind) if raw else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
