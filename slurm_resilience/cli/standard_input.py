"""What is piped in: a script to judge, a log to read."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from slurm_resilience.errors import UsageError

NAME = Path("-")
"""What stands for it among files."""


def of_at_most(most_bytes: int) -> bytes:
    """All of it; raises `UsageError` where it is closed, cannot be read, or is longer."""
    try:
        data = _opened().read(most_bytes + 1)
    except OSError as error:
        raise UsageError(f"standard input: {error.strerror}; name a file") from error
    if len(data) > most_bytes:
        raise UsageError(f"standard input: more than {most_bytes} bytes; name a file")
    return data


def spooled(path: Path) -> Path:
    """All of it as the file *path*, which can be read from its end."""
    piped = _opened()
    try:
        with path.open("wb") as file:
            shutil.copyfileobj(piped, file)
    except OSError as error:
        room = tempfile.gettempdir()
        raise UsageError(
            f"standard input, kept in {room}: {error.strerror}; name a file, or set TMPDIR"
        ) from error
    return path


def _opened() -> BinaryIO:
    # Python has none where it was closed before the start.
    if sys.stdin is None:
        raise UsageError("standard input is closed; name a file")
    return sys.stdin.buffer
