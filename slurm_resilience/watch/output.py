"""A command's output: passed on as it comes, its last lines kept for the verdict."""

import os
import threading
from collections import deque

MOST_LINES = 400
MOST_TAIL_BYTES = 128 << 10
MOST_LINE_BYTES = 4096
"""Longer lines are kept by their beginning."""
CHUNK = 1 << 16


class Tail:
    """The last lines of a stream of bytes, within bounds."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=MOST_LINES)
        self._bytes = 0
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take *data* in."""
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._keep(line[:MOST_LINE_BYTES])
        # A progress bar writes for hours without a newline.
        self._rest = rest[:MOST_LINE_BYTES]

    def lines(self) -> tuple[str, ...]:
        """What is kept, oldest first, an unfinished line too."""
        rest = [self._rest] if self._rest else []
        return tuple(line.decode("utf-8", "replace") for line in [*self._lines, *rest])

    def _keep(self, line: bytes) -> None:
        if len(self._lines) == MOST_LINES:
            self._bytes -= len(self._lines[0])
        self._lines.append(line)
        self._bytes += len(line)
        while self._bytes > MOST_TAIL_BYTES:
            self._bytes -= len(self._lines.popleft())


class Relay:
    """
    Copies one descriptor to another in a thread of its own, so that a reader that is slow (srun's
    network, a full disk) blocks the command's writes as it would without us, and nothing else.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._tail = Tail()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._copy, args=(source, sink), daemon=True)
        self._thread.start()

    def lines(self) -> tuple[str, ...]:
        """The last lines so far."""
        with self._lock:
            return self._tail.lines()

    def finish(self, timeout_s: float) -> None:
        """Wait until every writer is gone, but not for ever: one may not die."""
        self._thread.join(timeout_s)

    def _copy(self, source: int, sink: int) -> None:
        reading = True
        with open(source, "rb", buffering=0) as stream:
            while data := stream.read(CHUNK):
                with self._lock:
                    self._tail.feed(data)
                # Where nobody reads any more, the command must not block for that.
                reading = reading and _write(sink, data)


def _write(sink: int, data: bytes) -> bool:
    try:
        while data:
            data = data[os.write(sink, data) :]
    except OSError:
        return False
    return True
