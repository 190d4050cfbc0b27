"""What is said to the owner process and to the router: JSON, one message a time."""

import msgspec


class Link(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """
    How the one link of a machine behaves from now on.

    Applies in both directions; a packet crosses two links, its sender's and its receiver's.
    """

    host: str
    cut: bool = False
    delay_ms: float = 0.0
    """Each way: a round trip takes twice as long."""
    loss: float = 0.0
    """Share of packets that are lost each way, 0 to 1."""
    rate_mbit: float = 0.0
    """Most Mbit/s each way; 0: no limit."""


class Attach(msgspec.Struct, frozen=True, tag=True):
    """A machine is on; its TUN device comes with the message."""

    host: str
    address: str


class Detach(msgspec.Struct, frozen=True, tag=True):
    """A machine has lost power."""

    host: str


class PowerOff(msgspec.Struct, frozen=True, tag=True):
    """Cut the link, then kill everything on a machine."""

    host: str


class PowerOn(msgspec.Struct, frozen=True, tag=True):
    """Boot a machine again."""

    host: str


class Links(msgspec.Struct, frozen=True, tag=True):
    """Ask for the state of every link."""


class Down(msgspec.Struct, frozen=True, tag=True):
    """Take the cluster down."""


class Answer(msgspec.Struct, frozen=True):
    """The owner's answer; *error* is empty where it was done."""

    error: str = ""
    links: tuple[Link, ...] = ()


ToRouter = Link | Attach | Detach
ToOwner = Link | PowerOff | PowerOn | Links | Down
