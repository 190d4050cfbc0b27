"""
Work that may block for ever (a hung file system, a stuck driver), in a child with a deadline.

A child in uninterruptible sleep cannot be killed, so it is never waited for: it holds nothing of
ours (no open file, lock or terminal) and is left behind.
"""

import os
import pwd
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn, TypeVar

import msgspec

from slurm_resilience.errors import ResilienceError

MOST_BYTES = 16 << 20
_CHUNK = 1 << 16
_MOST_DESCRIPTORS = 1 << 16

Work = Callable[[], Iterable[object]]
"""Yields answers, each of which must have a form in JSON."""

K = TypeVar("K")


class Answer(msgspec.Struct, frozen=True):
    """What a child said: one JSON text an item. What came before trouble is kept."""

    items: tuple[bytes, ...]
    trouble: str = ""
    """Why there may be more that we never heard; empty when the work came to its end."""


class Child:
    """Work under way in a process of its own."""

    def __init__(self, work: Work, *, as_user: int | None = None) -> None:
        """Start *work*, as user id *as_user* if given (only root can)."""
        self._source, sink = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _work_and_die(work, sink, as_user)
        os.close(sink)
        os.set_blocking(self._source, False)
        self._text = bytearray()
        self._gone = False

    def is_gone(self) -> bool:
        """Whether the process has ended; asks without waiting."""
        if not self._gone:
            self._gone = os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        return self._gone

    def fileno(self) -> int:
        """For selectors: readable when `more` has something to take."""
        return self._source

    def more(self) -> bool:
        """Take what has been said; whether more may come."""
        chunk = os.read(self._source, _CHUNK)
        self._text += chunk
        return bool(chunk) and len(self._text) <= MOST_BYTES

    def leave(self, trouble: str) -> Answer:
        """Stop listening; kill what still runs."""
        os.close(self._source)
        *items, end = bytes(self._text).split(b"\n")
        if items and items[-1] == b"":
            items.pop()
            trouble = ""
        elif end.startswith(b"!"):
            trouble = end[1:].decode("utf-8", "replace")
        if not self.is_gone():
            os.kill(self.pid, signal.SIGKILL)
            _left_behind.append(self)
        return Answer(tuple(items), trouble)


_left_behind: list[Child] = []
"""Children not yet seen to end: asked again at each `gather`, so that none stays a zombie."""


def gather(children: Mapping[K, Child], *, deadline_s: float) -> dict[K, Answer]:
    """What each child says within *deadline_s* seconds from now."""
    _left_behind[:] = [child for child in _left_behind if not child.is_gone()]
    until = time.monotonic() + deadline_s
    answers: dict[K, Answer] = {}
    with selectors.DefaultSelector() as selector:
        for key, child in children.items():
            selector.register(child, selectors.EVENT_READ, key)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            for entry, _ in ready:
                child = children[entry.data]
                if not child.more():
                    selector.unregister(child)
                    answers[entry.data] = child.leave("ended without an answer")
            if not ready:
                break
    late = f"no answer in {deadline_s:g} s"
    return answers | {
        key: child.leave(late) for key, child in children.items() if key not in answers
    }


def ask(work: Work, *, deadline_s: float, as_user: int | None = None) -> Answer:
    """What *work* says within *deadline_s* seconds."""
    return gather({0: Child(work, as_user=as_user)}, deadline_s=deadline_s)[0]


def _work_and_die(work: Work, sink: int, as_user: int | None) -> NoReturn:
    try:
        _let_go(keep=sink)
        try:
            if as_user is not None:
                _become(as_user)
            for item in work():
                _say(sink, msgspec.json.encode(item) + b"\n")
            _say(sink, b"\n")
        except (OSError, ValueError, ResilienceError) as error:
            _say(sink, f"!{error}".encode("utf-8", "replace").replace(b"\n", b" "))
    finally:
        # Nothing of the parent's may run here: no exit handlers, no flushing of its buffers.
        os._exit(0)


def _let_go(*, keep: int) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    # A child left behind would otherwise hold our locks and the pipes of who called us.
    os.closerange(3, keep)
    os.closerange(keep + 1, _MOST_DESCRIPTORS)


def _become(user_id: int) -> None:
    groups: Sequence[int]
    try:
        account = pwd.getpwuid(user_id)
    except KeyError:
        group, groups = user_id, ()
    else:
        group, groups = account.pw_gid, os.getgrouplist(account.pw_name, account.pw_gid)
    os.setgroups(groups)
    os.setgid(group)
    os.setuid(user_id)


def _say(sink: int, text: bytes) -> None:
    while text:
        text = text[os.write(sink, text) :]
