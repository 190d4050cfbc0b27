"""
The supervisor's end of the agents' lines.

Listens where every node of the cluster can reach it, so whoever comes is a stranger until the
first line holds this attempt's token; a stranger costs its own connection and nothing else.
"""

import contextlib
import hmac
import logging
import selectors
import socket
from typing import NamedTuple

from slurm_resilience.watch.messages import (
    MOST_HELLO_BYTES,
    MOST_LINE_BYTES,
    Hello,
    LineError,
    Lines,
    Order,
    Upward,
    decode_upward,
    encode,
)

STRANGER_S = 10.0
"""For a connection to show the token."""
MOST_STRANGERS = 64
MOST_UNSENT_BYTES = 1 << 16
"""An agent that takes nothing for so long has its connection broken; it will come again."""
CHUNK = 1 << 16

log = logging.getLogger(__name__)


class Joined(NamedTuple):
    """An agent's connection came up."""

    node: str


class Left(NamedTuple):
    """An agent's connection broke."""

    node: str


class Said(NamedTuple):
    """A message of the agent on *node*."""

    node: str
    message: Upward


Event = Joined | Left | Said


class _Peer:
    def __init__(self, line: socket.socket, now: float) -> None:
        self.line = line
        self.since = now
        self.node: str | None = None
        self.lines = Lines(MOST_HELLO_BYTES)
        self.out = b""


class Hub:
    """All connections of one attempt."""

    def __init__(self, token: str) -> None:
        self.token = token
        dual = socket.has_dualstack_ipv6()
        self._listener = socket.create_server(
            ("", 0),
            family=socket.AF_INET6 if dual else socket.AF_INET,
            dualstack_ipv6=dual,
            backlog=1024,
        )
        self._listener.settimeout(0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._peers: set[_Peer] = set()
        self._events: list[Event] = []

    @property
    def port(self) -> int:
        """Where agents connect."""
        return int(self._listener.getsockname()[1])

    @property
    def has_agents(self) -> bool:
        """Whether any agent is connected."""
        return any(peer.node is not None for peer in self._peers)

    def watch(self, descriptor: int) -> None:
        """Come back from `tick` early when *descriptor* is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ)

    def say(self, order: Order, node: str | None = None) -> None:
        """Tell the agent on *node*, or every agent, as far as they are there."""
        for peer in list(self._peers):
            if peer.node is not None and node in {None, peer.node}:
                self._say(peer, order)

    def tick(self, now: float, wait_s: float) -> list[Event]:
        """What happened since the last tick; waits up to *wait_s* for it."""
        for key, events in self._selector.select(wait_s):
            if key.fileobj is self._listener:
                self._accept(now)
            elif isinstance(key.data, _Peer):
                self._exchange(key.data, events)
        for peer in [each for each in self._peers if each.node is None]:
            if now - peer.since > STRANGER_S:
                self._drop(peer, "showed no token")
        happened, self._events = self._events, []
        return happened

    def close(self) -> None:
        """Hang up on everybody."""
        for peer in list(self._peers):
            self._drop(peer, "the attempt is over")
        self._selector.close()
        self._listener.close()

    def _accept(self, now: float) -> None:
        with contextlib.suppress(OSError):
            while True:  # until nobody waits
                line, _ = self._listener.accept()
                if sum(peer.node is None for peer in self._peers) >= MOST_STRANGERS:
                    line.close()
                    continue
                line.settimeout(0)
                peer = _Peer(line, now)
                self._peers.add(peer)
                self._selector.register(line, selectors.EVENT_READ, peer)

    def _exchange(self, peer: _Peer, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(peer)
            if events & selectors.EVENT_READ:
                self._receive(peer)
        except BlockingIOError:
            return
        except (OSError, LineError) as error:
            self._drop(peer, str(error))

    def _receive(self, peer: _Peer) -> None:
        data = peer.line.recv(CHUNK)
        if not data:
            raise LineError("hung up")
        for text in peer.lines.feed(data):
            self._take(peer, decode_upward(text))

    def _take(self, peer: _Peer, message: Upward) -> None:
        if peer.node is not None:
            self._events.append(Said(peer.node, message))
            return
        if not isinstance(message, Hello):
            raise LineError("spoke before it showed the token")
        if not hmac.compare_digest(message.token.encode(), self.token.encode()):
            raise LineError("showed a wrong token")
        for old in [each for each in self._peers if each.node == message.node]:
            self._drop(old, "came again")
        peer.node = message.node
        peer.lines.most_bytes = MOST_LINE_BYTES
        self._events.append(Joined(message.node))

    def _say(self, peer: _Peer, order: Order) -> None:
        peer.out += encode(order)
        try:
            self._flush(peer)
        except (OSError, LineError) as error:
            self._drop(peer, str(error))

    def _flush(self, peer: _Peer) -> None:
        try:
            peer.out = peer.out[peer.line.send(peer.out) :]
        except BlockingIOError:
            if len(peer.out) > MOST_UNSENT_BYTES:
                raise LineError("takes nothing") from None
        writing = selectors.EVENT_WRITE if peer.out else 0
        self._selector.modify(peer.line, selectors.EVENT_READ | writing, peer)

    def _drop(self, peer: _Peer, why: str) -> None:
        if peer not in self._peers:
            return
        self._peers.remove(peer)
        self._selector.unregister(peer.line)
        peer.line.close()
        if peer.node is not None:
            log.debug("agent on %s: %s", peer.node, why)
            self._events.append(Left(peer.node))
