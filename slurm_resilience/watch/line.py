"""
The agent's end of its line to the supervisor: connects, and connects again after a break.

Nothing here waits for long. What the supervisor must not miss is said again on each connection;
of reports only the newest is worth saying.
"""

import contextlib
import logging
import os
import selectors
import socket
from collections import deque

from slurm_resilience.watch.messages import (
    MOST_HELLO_BYTES,
    Exited,
    Hello,
    LineError,
    Lines,
    Notice,
    Order,
    Report,
    Upward,
    decode_order,
    encode,
)

RETRY_S = 1.0
CONNECT_S = 10.0
CHUNK = 1 << 16

log = logging.getLogger(__name__)


class Line:
    """One agent's line."""

    def __init__(self, address: tuple[str, int], hello: Hello, now: float) -> None:
        self._address = address
        self._hello = hello
        self._socket: socket.socket | None = None
        self._is_up = False
        self._tried_at = now - RETRY_S
        self._lasting: list[Upward] = []
        self._waiting: deque[Upward] = deque()
        self._out = b""
        self._in = Lines(MOST_HELLO_BYTES)
        self.heard_at = now
        """When the supervisor was last heard."""
        self.address = ""
        """This node's own address on the line; empty before the first connection."""

    def say(self, message: Upward) -> None:
        """Send *message* as soon as the line is up and free."""
        if isinstance(message, Notice | Exited):
            self._lasting.append(message)
        if isinstance(message, Report):
            self._waiting = deque(
                each for each in self._waiting if not isinstance(each, Report)
            )
        self._waiting.append(message)

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return self._is_up

    @property
    def is_flushed(self) -> bool:
        """Whether everything said has left this process."""
        return self._is_up and not self._out and not self._waiting

    def tick(self, now: float, wait_s: float, wakeup: int) -> list[Order]:
        """Send and receive what there is; waits up to *wait_s* for it, or for *wakeup*."""
        self._keep_up(now)
        self._fill()
        with selectors.DefaultSelector() as selector:
            selector.register(wakeup, selectors.EVENT_READ)
            if self._socket is not None:
                writing = selectors.EVENT_WRITE if self._out or not self._is_up else 0
                selector.register(self._socket, selectors.EVENT_READ | writing)
            ready = {key.fd: events for key, events in selector.select(wait_s)}
        if self._socket is None:
            return []
        events = ready.get(self._socket.fileno(), 0)
        try:
            return self._exchange(events, now)
        except (OSError, LineError) as error:
            self._break(str(error))
            return []

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _keep_up(self, now: float) -> None:
        if self._socket is not None and not self._is_up and now - self._tried_at > CONNECT_S:
            self._break("no answer")
        if self._socket is None and now - self._tried_at >= RETRY_S:
            self._tried_at = now
            try:
                self._connect()
            except OSError as error:
                self._break(str(error))

    def _connect(self) -> None:
        kind = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        self._socket = socket.socket(kind, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._out = encode(self._hello)
        lost = [each for each in self._waiting if each not in self._lasting]
        self._waiting = deque([*lost, *self._lasting])
        self._in = Lines(MOST_HELLO_BYTES)
        with contextlib.suppress(BlockingIOError):
            self._socket.connect(self._address)

    def _fill(self) -> None:
        if self._is_up and not self._out and self._waiting:
            self._out = encode(self._waiting.popleft())

    def _exchange(self, events: int, now: float) -> list[Order]:
        line = self._socket
        if line is None:
            return []
        if events & selectors.EVENT_WRITE:
            trouble = line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if trouble:
                raise OSError(trouble, os.strerror(trouble))
            self._is_up = True
            self.address = str(line.getsockname()[0])
            self._out = self._out[line.send(self._out) :]
        if not events & selectors.EVENT_READ:
            return []
        data = line.recv(CHUNK)
        if not data:
            raise LineError("the supervisor hung up")
        self.heard_at = now
        return [decode_order(text) for text in self._in.feed(data)]

    def _break(self, why: str) -> None:
        log.info("line to the supervisor: %s", why)
        self.close()
        self._is_up = False
        self._out = b""
