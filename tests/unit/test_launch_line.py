"""The line between agents and supervisor, over real connections."""

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from slurm_resilience.diagnosis.facts import RankError
from slurm_resilience.launch.hub import Event, Hub, Joined, Left, Said
from slurm_resilience.signals import caught
from slurm_resilience.watch.facts import NodeFacts
from slurm_resilience.watch.line import Line
from slurm_resilience.watch.messages import (
    Exited,
    Hello,
    Notice,
    Order,
    Report,
    encode,
    fitted,
)

TOKEN = "0123456789abcdef"


class Ends:
    """A hub, and as many lines to it as a test wants."""

    def __init__(self, wakeup: int) -> None:
        self.hub = Hub(TOKEN)
        self.events: list[Event] = []
        self.orders: list[Order] = []
        self.lines: list[Line] = []
        self._wakeup = wakeup

    def line(self, node: str, token: str = TOKEN) -> Line:
        address = ("127.0.0.1", self.hub.port)
        self.lines.append(Line(address, Hello(token, node), time.monotonic()))
        return self.lines[-1]

    def until(self, what: Callable[[], object], timeout_s: float = 20.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < deadline, self.events
            self.events += self.hub.tick(time.monotonic(), 0.01)
            for line in self.lines:
                self.orders += line.tick(time.monotonic(), 0.01, self._wakeup)

    def stranger(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.hub.port), timeout=20)

    def is_closed(self, stranger: socket.socket) -> bool:
        stranger.settimeout(0)
        try:
            return stranger.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True


@pytest.fixture
def ends() -> Iterator[Ends]:
    with caught() as flags:
        ends = Ends(flags.wakeup)
        yield ends
        for line in ends.lines:
            line.close()
        ends.hub.close()


def test_reports_and_orders_cross(ends: Ends) -> None:
    """What an agent says comes with its node; an order reaches it."""
    line = ends.line("n1")
    line.say(Report(NodeFacts("n1", load_1m=0.5)))
    ends.until(lambda: len(ends.events) == 2)

    ends.hub.say(Order("stop"))
    ends.until(lambda: ends.orders)

    assert ends.events == [Joined("n1"), Said("n1", Report(NodeFacts("n1", load_1m=0.5)))]
    assert ends.orders == [Order("stop")]


@pytest.mark.parametrize(
    "text",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xfe\x00\n",
        b"x" * 5000,
        encode(Hello("wrong", "n1")),
        encode(Hello("", "n1")),
        encode(Notice()),
    ],
    ids=["http", "binary", "endless", "wrong token", "no token", "no hello"],
)
def test_a_stranger_costs_its_own_connection_only(ends: Ends, text: bytes) -> None:
    """Garbage and wrong tokens are hung up on; the agent that is there stays."""
    line = ends.line("n1")
    ends.until(lambda: ends.events)

    with ends.stranger() as stranger:
        stranger.sendall(text)
        ends.until(lambda: ends.is_closed(stranger))

    line.say(Notice())
    ends.until(lambda: len(ends.events) > 1)
    assert ends.events == [Joined("n1"), Said("n1", Notice())]


def test_a_silent_stranger_is_not_waited_for(ends: Ends) -> None:
    """Who shows no token in time is hung up on."""
    with ends.stranger() as stranger:
        ends.hub.tick(time.monotonic(), 0.1)

        ends.hub.tick(time.monotonic() + 60, 0.1)

        assert ends.is_closed(stranger)


def test_strangers_cannot_use_up_the_supervisor(ends: Ends) -> None:
    """Of many silent connections most are refused at once, and an agent still gets in."""
    crowd = [ends.stranger() for _ in range(80)]
    ends.until(lambda: sum(ends.is_closed(each) for each in crowd) >= 16)

    for each in crowd:
        each.close()
    ends.line("n1")
    ends.until(lambda: Joined("n1") in ends.events)


def test_an_agent_comes_back_after_a_break_and_says_again_what_matters(ends: Ends) -> None:
    """How the command ended is not lost with a connection."""
    line = ends.line("n1")
    ends.until(lambda: ends.events)
    line.say(Exited(1, stderr=("boom",)))
    ends.until(lambda: len(ends.events) == 2)

    with ends.stranger() as twin:  # takes the agent's place, so that its line breaks
        twin.sendall(encode(Hello(TOKEN, "n1")))
        ends.until(lambda: Left("n1") in ends.events)
    ends.until(lambda: len(ends.events) == 7)

    again = [Joined("n1"), Said("n1", Exited(1, stderr=("boom",)))]
    assert ends.events == [*again, Left("n1"), Joined("n1"), Left("n1"), *again]


def test_only_the_newest_report_waits_for_a_line(ends: Ends) -> None:
    """After a break nobody wants to hear how things were."""
    line = ends.line("n1")
    for load in range(5):
        line.say(Report(NodeFacts("n1", load_1m=float(load))))

    ends.until(lambda: line.is_flushed)
    ends.until(lambda: len(ends.events) == 2)

    assert ends.events[1] == Said("n1", Report(NodeFacts("n1", load_1m=4.0)))


def test_what_a_command_said_last_always_fits(ends: Ends) -> None:
    """Even lines that JSON makes six times as long, and errors of many ranks."""
    line = ends.line("n1")
    told = Exited(
        1,
        stderr=("\x00" * 4096,) * 400,
        stdout=("é" * 2000, "last"),
        errors=(RankError("x" * 60_000),) * 64,
    )

    line.say(fitted(told))
    ends.until(lambda: len(ends.events) == 2)

    said = ends.events[1]
    assert isinstance(said, Said)
    assert isinstance(said.message, Exited)
    assert said.message.status == 1
    assert said.message.errors
