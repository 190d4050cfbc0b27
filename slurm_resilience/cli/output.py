"""Standard output, with faults that can be told from those of what is printed."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from slurm_resilience.errors import ResilienceError


class OutputError(ResilienceError):
    """What was to be said could not be written."""


class _Output:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a text file has
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"standard output: {error.strerror}") from error

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"standard output: {error.strerror}") from error


@contextmanager
def standard_output() -> Iterator[None]:
    """
    What is printed within is written out at the end.

    Raises `OutputError` where it cannot be: a full disk, or a closed descriptor.
    """
    before = sys.stdout
    nowhere = io.StringIO()
    if isinstance(before, io.TextIOWrapper):  # a terminal that is not Unicode's
        before.reconfigure(errors="backslashreplace")
    # None where it is closed.
    sys.stdout = cast("TextIO", _Output(before or nowhere))
    try:
        yield
        sys.stdout.flush()
        if nowhere.tell():
            raise OutputError("standard output is closed")
    finally:
        sys.stdout = before


def write_no_more() -> None:
    """Python would try once more at its end to write what cannot be written, and complain."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
