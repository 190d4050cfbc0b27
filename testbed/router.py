"""
The network: one process that moves packets between the machines' TUN devices.

Forwards by destination address. A machine's link can be cut, delayed, made lossy or slow; a
packet crosses its sender's link and then its receiver's.
"""

import heapq
import os
import random
import select
import socket
import time
from dataclasses import dataclass, field

import msgspec

from testbed.layout import MTU
from testbed.messages import Attach, Detach, Link, ToRouter

MOST_QUEUED_S = 0.2
"""A slow link drops what would wait longer than this, as a switch does."""
BURST = 64
"""Packets taken from one device before the others get their turn."""


@dataclass
class Port:
    """One machine's end of its link."""

    host: str
    tun: int
    link: Link
    free_at: dict[bool, float] = field(default_factory=dict)
    """By direction (out: True): when the last packet has left a link that has a rate."""

    def crossing(self, length: int, now: float, *, out: bool) -> float | None:
        """When a packet that is here at *now* is across the link; None: it is lost."""
        link = self.link
        if link.cut or (link.loss and random.random() < link.loss):
            return None
        if link.rate_mbit:
            begins = max(now, self.free_at.get(out, 0.0))
            if begins - now > MOST_QUEUED_S:
                return None
            now = self.free_at[out] = begins + length * 8 / (link.rate_mbit * 1e6)
        return now + link.delay_ms / 1000


class Router:
    """Forwards until its owner is gone."""

    def __init__(self, orders: socket.socket) -> None:
        self.orders = orders
        self.decoder = msgspec.json.Decoder(ToRouter)
        self.poll = select.epoll()
        self.poll.register(orders.fileno(), select.EPOLLIN)
        self.ports: dict[int, Port] = {}
        self.by_address: dict[bytes, Port] = {}
        self.held: list[tuple[float, int, Port, bytes]] = []
        self.count = 0

    def run(self) -> None:
        """Forward packets and carry out orders; returns when the owner hangs up."""
        while True:
            wait = max(0.0, self.held[0][0] - time.monotonic()) if self.held else -1
            for descriptor, _ in self.poll.poll(wait):
                if descriptor in self.ports:
                    self.forward(self.ports[descriptor])
                elif not self.obey():
                    return
            self.release()

    def obey(self) -> bool:
        """One order; False when there will be no more."""
        message, descriptors, _, _ = socket.recv_fds(self.orders, 1 << 16, 1)
        if not message:
            return False
        match self.decoder.decode(message):
            case Attach(host, address):
                port = Port(host, descriptors[0], Link(host=host))
                self.ports[port.tun] = self.by_address[socket.inet_aton(address)] = port
                self.poll.register(port.tun, select.EPOLLIN)
            case Detach(host):
                for port in [port for port in self.ports.values() if port.host == host]:
                    self.detach(port)
            case Link() as link:
                for port in self.ports.values():
                    if port.host == link.host:
                        port.link = link
        self.orders.send(b"done")
        return True

    def detach(self, port: Port) -> None:
        self.poll.unregister(port.tun)
        os.close(port.tun)
        del self.ports[port.tun]
        self.by_address = {
            key: other for key, other in self.by_address.items() if other is not port
        }

    def forward(self, sender: Port) -> None:
        """Move what waits at one device, a burst at most."""
        for _ in range(BURST):
            try:
                packet = os.read(sender.tun, MTU)
            except BlockingIOError:
                return
            except OSError:  # its machine is going away; the owner will say so
                self.detach(sender)
                return
            receiver = self.by_address.get(packet[16:20])
            if receiver is None:
                continue
            now = time.monotonic()
            half = sender.crossing(len(packet), now, out=True)
            if half is None:
                continue
            due = receiver.crossing(len(packet), half, out=False)
            if due is None:
                continue
            if due <= now:
                self.deliver(receiver, packet)
            else:
                self.count += 1  # keeps packets that are due together in order
                heapq.heappush(self.held, (due, self.count, receiver, packet))

    def release(self) -> None:
        """Deliver every held packet whose time has come."""
        now = time.monotonic()
        while self.held and self.held[0][0] <= now:
            _, _, receiver, packet = heapq.heappop(self.held)
            if self.ports.get(receiver.tun) is receiver and not receiver.link.cut:
                self.deliver(receiver, packet)

    @staticmethod
    def deliver(receiver: Port, packet: bytes) -> None:
        try:
            os.write(receiver.tun, packet)
        except OSError:  # not up yet, or its queue is full: a network may lose packets
            return
