"""
Each probe in a child of its own, with a deadline, all at once.

A driver or a file server that hangs puts its caller into D state, where not even SIGKILL ends it.
So nothing that can block runs in the hook itself; a child that misses its deadline is killed and
abandoned, never waited for. It holds nothing of the hook's: it has its own session, and neither
stdin, stdout nor stderr, so that slurmd does not wait for it either.

Answers cross the pipe as Python literals: importing json in the child would take longer than
most probes. Nothing here imports more than the interpreter has at hand.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False  # typing takes longer to import than most probes take
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_BYTES = 4 << 20
_CHUNK = 1 << 16
_KILL = 9  # `signal` would import enum
_ANSWER, _FAILURE = b"=", b"!"


class Child:
    """A probe at work."""

    __slots__ = ("answer", "deadline", "name", "pid", "pipe")

    def __init__(self, name: str, pid: int, pipe: int, deadline: float) -> None:
        self.name = name
        self.pid = pid
        self.pipe = pipe
        """-1 once it was let go."""
        self.deadline = deadline
        """CLOCK_MONOTONIC seconds."""
        self.answer = bytearray()


class Answers:
    """What came back: raw answers by name, and the names of those that gave none in time."""

    __slots__ = ("hung", "raw")

    def __init__(self, raw: dict[str, bytes], hung: tuple[str, ...]) -> None:
        self.raw = raw
        self.hung = hung

    def read(self) -> tuple[dict[str, object], dict[str, str]]:
        """Values by name, and for those that failed why."""
        from ast import literal_eval  # noqa: PLC0415 - the fast path compares bytes

        values, unread = {}, {}
        for name, raw in self.raw.items():
            text = raw[1:].decode("utf-8", "replace")
            if raw.startswith(_ANSWER):
                values[name] = literal_eval(text)
            else:
                unread[name] = text or "the probe ended without an answer"
        return values, unread


def start(
    name: str, probe: Callable[..., object], *, deadline: float, **arguments: object
) -> Child:
    """Begin `probe(**arguments)`, which returns plain builtins, in a child."""
    pipe, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _answer(write_end, probe, arguments)
    os.close(write_end)
    os.set_blocking(pipe, False)
    return Child(name, pid, pipe, deadline)


def gather(children: Iterable[Child]) -> Answers:
    """Wait until each child has answered or its deadline has passed."""
    waiting = {child.pipe: child for child in children}
    names = [child.name for child in waiting.values()]
    poll = select.poll()
    for pipe in waiting:
        poll.register(pipe, select.POLLIN)
    raw: dict[str, bytes] = {}
    hung = []
    while waiting:
        first = min(child.deadline for child in waiting.values())
        for pipe, _ in poll.poll(max(0.0, first - time.monotonic()) * 1000):
            child = waiting[pipe]
            if not _drain(child):
                raw[child.name] = bytes(child.answer)
                poll.unregister(pipe)
                _let_go(waiting.pop(pipe))
        now = time.monotonic()
        for child in [late for late in waiting.values() if late.deadline <= now]:
            poll.unregister(child.pipe)
            del waiting[child.pipe]
            hung.append(child.name)
            abandon(child)
    return Answers({name: raw[name] for name in names if name in raw}, tuple(hung))


def abandon(child: Child) -> None:
    """Give up a child that is still at work: kill it, and do not wait whether that helps."""
    if child.pipe >= 0:
        os.kill(child.pid, _KILL)
        _let_go(child)


def _let_go(child: Child) -> None:
    os.close(child.pipe)
    child.pipe = -1
    # Whoever is not gone yet becomes a zombie of this short-lived process, later of init.
    os.waitpid(child.pid, os.WNOHANG)


def _drain(child: Child) -> bool:
    """Take what is there; whether more may come."""
    while True:
        try:
            chunk = os.read(child.pipe, _CHUNK)
        except BlockingIOError:
            return True
        child.answer += chunk
        if not chunk:
            return False
        if len(child.answer) > MOST_BYTES:
            child.answer = bytearray(_FAILURE + b"the probe answered too much")
            return False


def _answer(write_end: int, probe: Callable[..., object], arguments: dict[str, object]) -> None:
    """In the child: ask, answer, and be gone, whatever happens."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.closerange(3, write_end)
        os.closerange(write_end + 1, os.sysconf("SC_OPEN_MAX"))
        try:
            answer = _ANSWER + repr(probe(**arguments)).encode()
        except Exception as error:  # noqa: BLE001 - the end of a process: its last words count
            answer = _FAILURE + f"{type(error).__name__}: {error}".encode()
        while answer:
            answer = answer[os.write(write_end, answer) :]
    finally:
        os._exit(0)
