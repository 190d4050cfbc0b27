"""Work in a child: what it says is heard, and nothing it does can hold us up."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.bounded import MOST_BYTES, Child, ask, gather
from slurm_resilience.errors import SlurmError


def blocked(pipe: Path) -> Iterator[bytes]:
    yield b"before"
    pipe.read_bytes()  # a FIFO that nobody writes to


def test_answers_come_in_order() -> None:
    """Each item is a line, be it empty."""
    answer = ask(lambda: [b"1", b"", b".", b"!"], deadline_s=10)

    assert answer.items == (b"1", b"", b".", b"!")
    assert answer.trouble == ""


def test_what_was_said_before_it_blocked_is_kept(tmp_path: Path) -> None:
    """A child that hangs costs its deadline, not what it had said."""
    os.mkfifo(tmp_path / "fifo")

    answer = ask(lambda: blocked(tmp_path / "fifo"), deadline_s=0.2)

    assert answer.items == (b"before",)
    assert answer.is_late
    assert answer.trouble == "no answer in time"


def test_one_blocked_child_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """Children work beside each other; each has its deadline."""
    os.mkfifo(tmp_path / "fifo")
    text = b"x" * 500_000  # more than a pipe holds
    until = time.monotonic() + 1
    children = {
        "stuck": Child(lambda: blocked(tmp_path / "fifo"), deadline=until),
        "long": Child(lambda: [text, text], deadline=until + 10),
    }

    answers = gather(children)

    assert answers["long"].trouble == ""
    assert [len(item) for item in answers["long"].items] == [500_000, 500_000]
    assert answers["stuck"].is_late


def test_an_error_is_told_in_one_line() -> None:
    """What the work could not do is said by whom it happened to."""

    def fail() -> Iterator[bytes]:
        yield b"1"
        raise SlurmError("no\nsuch thing")

    answer = ask(fail, deadline_s=10)

    assert answer.items == (b"1",)
    assert answer.trouble == "no such thing"


def test_a_child_that_dies_is_not_an_empty_answer() -> None:
    """Killed, or broken by a bug: there is trouble, never silence."""

    def die() -> Iterator[bytes]:
        yield b"1"
        os.kill(os.getpid(), signal.SIGKILL)

    assert ask(die, deadline_s=10).trouble == "ended without an answer"
    assert ask(lambda: [b"%d" % (1 // 0)], deadline_s=10).trouble.startswith(
        "ZeroDivisionError: "
    )


def test_an_endless_answer_is_cut() -> None:
    """A child cannot fill our memory."""

    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 1_000_000

    answer = ask(endless, deadline_s=30)

    assert answer.trouble == "answered too much"
    assert sum(map(len, answer.items)) <= MOST_BYTES + (1 << 16)


def test_a_child_holds_nothing_of_ours(tmp_path: Path) -> None:
    """No open file, and no terminal or log of who called us."""

    def descriptors() -> Iterator[bytes]:
        yield from sorted(
            bytes(path.readlink()) for path in Path("/proc/self/fd").glob("[012]")
        )
        yield b"%d" % len(list(Path("/proc/self/fd").iterdir()))

    with (tmp_path / "held").open("w"):
        answer = ask(descriptors, deadline_s=10)

    assert answer.items[:3] == (b"/dev/null",) * 3
    assert int(answer.items[3]) <= 5  # those three, the pipe, and the listing itself


def test_a_child_left_behind_is_seen_to_end(tmp_path: Path) -> None:
    """Who must not start a second one over a stuck one can ask."""
    os.mkfifo(tmp_path / "fifo")
    child = Child(lambda: blocked(tmp_path / "fifo"), deadline=time.monotonic() + 0.1)

    gather({0: child})

    until = time.monotonic() + 10
    while not child.is_gone() and time.monotonic() < until:
        time.sleep(0.01)
    assert child.is_gone()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_child_can_be_somebody_else(tmp_path: Path) -> None:
    """It can reach what that user can reach, and no more."""
    secret = tmp_path / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)

    def who() -> Iterator[bytes]:
        yield b"%d %d %d" % os.getresuid()
        yield from (b"%d" % group for group in os.getgroups())

    answer = ask(lambda: [secret.read_bytes()], deadline_s=10, as_user=65534)
    user, *groups = ask(who, deadline_s=10, as_user=65534).items

    assert user == b"65534 65534 65534"
    assert b"0" not in groups
    assert answer.items == ()
    assert "Permission denied" in answer.trouble
