"""The error files that ranks leave: see `watch.heartbeat.error_path`."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from slurm_resilience.diagnosis.facts import RankError
from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.files import read_bounded

MOST_BYTES = 64 << 10
MOST_FILES = 64


class Frame(msgspec.Struct, frozen=True):
    """One line of a traceback."""

    file: str
    line: int
    function: str


class ErrorFile(msgspec.Struct, frozen=True):
    """One exception."""

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    at: float = 0.0


def read_errors(directory: Path) -> tuple[RankError, ...]:
    """
    What the ranks of one node raised, as tracebacks, the earliest first; files that are none are
    left out.
    """
    return tuple(sorted(_each(directory), key=lambda error: error.at))


def as_traceback(error: ErrorFile) -> str:
    """The text that Python would have printed, without source lines."""
    frames = [f'  File "{at.file}", line {at.line}, in {at.function}' for at in error.frames]
    first = f"{error.type}: {error.message}".splitlines()
    return "\n".join(["Traceback (most recent call last):", *frames, *first])


def _each(directory: Path) -> Iterator[RankError]:
    for path in sorted(directory.glob("rank-*.error.json"))[:MOST_FILES]:
        try:
            data = read_bounded(path, most_bytes=MOST_BYTES, owners=frozenset({os.geteuid()}))
            error = msgspec.json.decode(data, type=ErrorFile)
        except (UntrustedFileError, OSError, msgspec.DecodeError, UnicodeDecodeError):
            continue
        yield RankError(as_traceback(error), at=error.at)
