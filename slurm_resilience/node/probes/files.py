"""The small files of sysfs and proc, and the word for what a machine does not have."""

from __future__ import annotations

import os

NOT_SUPPORTED = "not supported"
"""As `facts.NOT_SUPPORTED`, which is too much to import here."""
_MOST_BYTES = 4096


def text(path: str) -> str:
    """What stands in *path*, without the blanks around it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_BYTES).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)


def word(path: str) -> str | None:
    """The same; None where it is not there, or its device does not answer."""
    try:
        return text(path)
    except OSError:
        return None


def names(folder: str) -> list[str]:
    """The names in *folder*, sorted; none where it is not there."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
