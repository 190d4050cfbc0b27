"""Who owns an instance: one process at a time, and how to be rid of it."""

import contextlib
import fcntl
import os
import signal
import socket
import time
from collections.abc import Iterator
from typing import Literal, TextIO

import msgspec

from testbed import state
from testbed.errors import TestbedError
from testbed.layout import Layout
from testbed.messages import Answer, Down, ToOwner

ANSWER_S = 30.0
DOWN_S = 20.0
GOING_S = 3.0


@contextlib.contextmanager
def held(layout: Layout) -> Iterator[None]:
    """Be the one owner of an instance; the kernel lets go however this process ends."""
    state.make_root()
    deadline = time.monotonic() + GOING_S
    while (file := _locked(layout, "a")) is None and time.monotonic() < deadline:
        time.sleep(0.05)  # one that is going down holds it for a moment
    if file is None:
        raise TestbedError(
            f"instance {layout.instance} is up already; "
            f"python -m testbed down --instance {layout.instance}"
        )
    with file:
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            layout.lock.unlink()


def is_up(layout: Layout) -> bool:
    """Whether an instance has an owner."""
    try:
        file = _locked(layout, "r")
    except FileNotFoundError:
        return False
    if file is not None:
        file.close()
    return file is None


def ask(layout: Layout, order: ToOwner) -> Answer:
    """Have the owner carry out an order; its refusal is a `TestbedError`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as owner:
        owner.settimeout(ANSWER_S)
        try:
            owner.connect(str(layout.control))
            owner.send(msgspec.json.encode(order))
            reply = owner.recv(1 << 16)
        except OSError as error:
            raise TestbedError(f"instance {layout.instance} is not up") from error
    answer = msgspec.json.decode(reply or b"{}", type=Answer)
    if answer.error:
        raise TestbedError(answer.error)
    return answer


def clear(layout: Layout) -> None:
    """Take an instance down, whatever has become of its owner, and remove every trace."""
    with contextlib.suppress(TestbedError):
        ask(layout, Down())
    deadline = time.monotonic() + DOWN_S
    killed = False
    while is_up(layout):
        if time.monotonic() > deadline:
            if killed:
                raise TestbedError(f"instance {layout.instance} does not go away")
            # The lock is held, so the id in it is its owner's; all else dies with that one.
            os.kill(int(layout.lock.read_text()), signal.SIGKILL)
            killed, deadline = True, time.monotonic() + DOWN_S
        time.sleep(0.02)
    state.sweep(layout)
    layout.lock.unlink(missing_ok=True)


def _locked(layout: Layout, mode: Literal["a", "r"]) -> TextIO | None:
    """The lock file, locked; None while somebody else holds it."""
    while True:
        file = layout.lock.open(mode)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # its last owner removed it in the meantime
