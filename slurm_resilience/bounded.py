"""
Work that may block for ever (a hung file system, a stuck driver), in a child with a deadline.

A child in uninterruptible sleep cannot be killed, so it is never waited for: it has a session of its
own, holds nothing of ours (no open file, lock, terminal, nor the pipes of who called us), and is
left behind.

The prolog waits for these imports, so there are next to none; what an answer looks like inside is
its sender's and its reader's affair.
"""

from __future__ import annotations

import os
import select
import sys
import time

from slurm_resilience.errors import ResilienceError

TYPE_CHECKING = False  # typing takes longer to import than most probes take
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import NoReturn, TypeVar

    K = TypeVar("K")
    Work = Callable[[], Iterable[bytes]]
    """Yields answers, each of them one line."""

MOST_BYTES = 16 << 20
_CHUNK = 1 << 16
_KILL = 9  # `signal` would import enum
_ITEM, _END, _TROUBLE = b"=", b".", b"!"


class Answer:
    """What a child said. What came before trouble is kept."""

    __slots__ = ("is_late", "items", "trouble")

    def __init__(self, items: tuple[bytes, ...], trouble: str, *, is_late: bool) -> None:
        self.items = items
        self.trouble = trouble
        """Why there may be more that we never heard; empty when the work came to its end."""
        self.is_late = is_late
        """Whether the deadline passed first."""


class Child:
    """Work under way in a process of its own."""

    __slots__ = ("_gone", "_said", "deadline", "pid", "pipe")

    def __init__(self, work: Work, *, deadline: float, as_user: int | None = None) -> None:
        """Start *work*, as user id *as_user* if given (only root can)."""
        self.deadline = deadline
        """CLOCK_MONOTONIC seconds."""
        self.pipe, sink = os.pipe()
        """-1 once nobody listens any more."""
        self.pid = os.fork()
        if self.pid == 0:
            _work_and_die(work, sink, as_user)
        os.close(sink)
        os.set_blocking(self.pipe, False)
        self._said = bytearray()
        self._gone = False

    def is_gone(self) -> bool:
        """Whether the process has ended; asks without waiting."""
        try:
            self._gone = self._gone or os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except ChildProcessError:  # where SIGCHLD is ignored, the kernel has seen to it
            self._gone = True
        return self._gone

    def more(self) -> bool:
        """Take what has been said; whether more may come."""
        chunk = os.read(self.pipe, _CHUNK)
        self._said += chunk
        return bool(chunk) and len(self._said) <= MOST_BYTES

    def leave(self, *, is_late: bool = False) -> Answer:
        """Stop listening, kill what still runs, and do not wait whether that helps."""
        os.close(self.pipe)
        self.pipe = -1
        if not self.is_gone():
            _kill(self.pid)
            _left_behind.append(self)
        trouble = "no answer in time" if is_late else "ended without an answer"
        items = []
        for line in bytes(self._said).split(b"\n")[:-1]:  # what has no end is no answer
            if line.startswith(_ITEM):
                items.append(line[1:])
            else:
                trouble = line[1:].decode("utf-8", "replace")
                is_late = False
        if len(self._said) > MOST_BYTES:  # even where its last word came just with it
            trouble = "answered too much"
        return Answer(tuple(items), trouble, is_late=is_late)


def _kill(pid: int) -> None:
    """A child, and whatever command it started: it leads a group of its own once it runs."""
    try:
        os.killpg(pid, _KILL)
    except ProcessLookupError:  # it had not come that far
        os.kill(pid, _KILL)


_left_behind: list[Child] = []
"""Children not yet seen to end: asked again at each `gather`, so that none stays a zombie."""


def gather(children: Mapping[K, Child]) -> dict[K, Answer]:
    """What each child says within its time, in their order."""
    _left_behind[:] = [child for child in _left_behind if not child.is_gone()]
    answers: dict[K, Answer] = {}
    waiting = {child.pipe: key for key, child in children.items()}
    poll = select.poll()
    for pipe in waiting:
        poll.register(pipe, select.POLLIN)
    while waiting:
        first = min(children[key].deadline for key in waiting.values())
        for pipe, _ in poll.poll(max(0.0, first - time.monotonic()) * 1000):
            if not children[waiting[pipe]].more():
                poll.unregister(pipe)
                key = waiting.pop(pipe)
                answers[key] = children[key].leave()
        now = time.monotonic()
        for pipe, key in list(waiting.items()):
            if children[key].deadline <= now:
                poll.unregister(pipe)
                del waiting[pipe]
                answers[key] = children[key].leave(is_late=True)
    return {key: answers[key] for key in children}


def ask(work: Work, *, deadline_s: float, as_user: int | None = None) -> Answer:
    """What *work* says within *deadline_s* seconds."""
    return gather({0: Child(work, deadline=time.monotonic() + deadline_s, as_user=as_user)})[0]


def abandon(child: Child) -> None:
    """Give up a child that nobody gathered."""
    if child.pipe >= 0:
        child.leave()


# ── in the child ────────────────────────────────────────────────────────────────────────────


def _work_and_die(work: Work, sink: int, as_user: int | None) -> NoReturn:
    try:
        _let_go(keep=sink)
        try:
            if as_user is not None:
                _become(as_user)
            for item in work():
                _say(sink, _ITEM + item)
            _say(sink, _END)
        except ResilienceError as error:
            _say(sink, _TROUBLE + _one_line(str(error)))
        except Exception as error:  # noqa: BLE001 - the end of a process: its last words count
            _say(sink, _TROUBLE + _one_line(f"{type(error).__name__}: {error}"))
    finally:
        # Nothing of the parent's may run here: no exit handlers, no flushing of its buffers.
        os._exit(0)


def _let_go(*, keep: int) -> None:
    os.setsid()
    # Who handles signals has imported it.
    if signal := sys.modules.get("signal"):
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.closerange(3, keep)
    os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))


def _become(user_id: int) -> None:
    import pwd  # noqa: PLC0415 - not for the prolog

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


def _one_line(text: str) -> bytes:
    return text.encode("utf-8", "replace").replace(b"\n", b" ")


def _say(sink: int, line: bytes) -> None:
    line += b"\n"
    while line:
        line = line[os.write(sink, line) :]
