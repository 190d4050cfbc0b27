"""Whether the driver's libraries can be loaded, by loading them: a file may be there and empty."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any

NAMES = ("libnvidia-ml.so.1", "libcuda.so.1")


def read() -> list[dict[str, Any]]:
    """As `facts.LibraryFacts`, of those that are installed."""
    return [found for name in NAMES if (found := _load(name))]


def _load(name: str) -> dict[str, Any] | None:
    try:
        ctypes.CDLL(name)
    except OSError as error:
        said = str(error)
        # `<file>: <why>`, where the file is the name itself if it was not found at all.
        path, _, _ = said.partition(": ")
        if path == name and "No such file" in said:
            return None
        empty = os.path.exists(path) and os.path.getsize(path) == 0
        return {"name": name, "error": said, "empty": empty}
    return {"name": name}
