"""
What agent and supervisor say to each other: one JSON value a line, over one TCP connection.

    agent -> supervisor    Hello first, then Report every few seconds; Notice, Stack, Exited
    supervisor -> agent    Order; an agent that hears none for long ends its ranks
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from slurm_resilience.diagnosis.facts import RankError
from slurm_resilience.errors import ResilienceError
from slurm_resilience.watch.facts import NodeFacts

MOST_LINE_BYTES = 1 << 20
MOST_HELLO_BYTES = 4096
"""Before the token is known to be right."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first line of a connection."""

    token: str
    node: str


class Report(msgspec.Struct, frozen=True, tag="report"):
    """How the node is now."""

    facts: NodeFacts


class Notice(msgspec.Struct, frozen=True, tag="notice"):
    """Slurm sent SIGTERM to the step: it wants the job to stop, and left the batch script be."""


class Stack(msgspec.Struct, frozen=True, tag="stack"):
    """What one rank answered when asked where it is."""

    rank: int
    text: str
    """Empty where it did not answer."""


class Dumped(msgspec.Struct, frozen=True, tag="dumped"):
    """All stacks that there are to have, and a fresh report, have been sent."""


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """The command ended on this node; its last lines."""

    status: int
    """As a shell gives it."""
    stderr: tuple[str, ...] = ()
    stdout: tuple[str, ...] = ()
    errors: tuple[RankError, ...] = ()


Upward = Hello | Report | Notice | Stack | Dumped | Exited


class Order(msgspec.Struct, frozen=True):
    """
    What the agent is to do.

    stop: tell the ranks to save and stop. dump: send their stacks and a fresh report. end: end
    them with grace, and itself. kill: the same without grace. stay: nothing; the supervisor is
    there.
    """

    word: Literal["stay", "stop", "dump", "end", "kill"]


class LineError(ResilienceError):
    """The other side sent what is no line of ours."""


def encode(message: Upward | Order) -> bytes:
    """One line."""
    return msgspec.json.encode(message) + b"\n"


def decode_upward(line: bytes) -> Upward:
    """An agent's line; `LineError` where it is none."""
    try:
        return msgspec.json.decode(line, type=Upward)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LineError(f"not a message: {error}") from error


def decode_order(line: bytes) -> Order:
    """A supervisor's line; `LineError` where it is none."""
    try:
        return msgspec.json.decode(line, type=Order)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LineError(f"not an order: {error}") from error


def fitted(exited: Exited) -> Exited:
    """*exited* with as many of its last lines as one line holds: a supervisor takes no longer."""
    while len(encode(exited)) > MOST_LINE_BYTES:
        exited = msgspec.structs.replace(
            exited,
            stderr=exited.stderr[len(exited.stderr) // 2 + 1 :],
            stdout=exited.stdout[len(exited.stdout) // 2 + 1 :],
            errors=exited.errors[: len(exited.errors) // 2],
        )
    return exited


class Lines:
    """Bytes as they come -> whole lines."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """
        Lines that *data* completes, one by one; `LineError` when one grows over the limit.

        The limit may be changed between two lines: after a stranger has shown its token.
        """
        self._rest += data
        while True:
            line, end, rest = self._rest.partition(b"\n")
            if len(line) > self.most_bytes:
                raise LineError(f"a line of more than {self.most_bytes} bytes")
            if not end:
                return
            self._rest = rest
            yield line
