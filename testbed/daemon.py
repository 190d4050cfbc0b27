"""
The owner process: every process of the cluster is its child, and dies with it.

    python -m testbed.daemon SPEC [--tethered]

Prints one line, `up` or why not. Tethered, it takes the cluster down when its standard input
ends; otherwise only when it is told to.
"""

import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from testbed import boot, state
from testbed.commands import remember_mounts
from testbed.errors import TestbedError
from testbed.layout import Layout, Spec
from testbed.messages import (
    Answer,
    Attach,
    Detach,
    Down,
    Link,
    Links,
    PowerOff,
    PowerOn,
    ToOwner,
)
from testbed.namespaces import die_with_parent, fork_init
from testbed.ownership import held
from testbed.router import Router

MESSAGE_BYTES = 1 << 16
STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


class Owner:
    """Boots the machines, carries out orders, takes everything down."""

    def __init__(self, spec: Spec, layout: Layout) -> None:
        self.spec = spec
        self.layout = layout
        self.inits: dict[str, int] = {}
        self.links = {host: Link(host=host) for host in spec.hosts}
        self.router, self.router_pid = _start_router(layout.owner_log)

    def boot(self, *hosts: str) -> None:
        """Power on *hosts*, all at once; returns when their daemons are started."""
        channels = {host: self._fork(host) for host in hosts}
        for host, channel in channels.items():
            with channel:
                channel.settimeout(boot.BOOT_S)
                message, tuns, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 1)
            report = msgspec.json.decode(message or b'{"error": "died"}', type=boot.Booted)
            if report.error:
                raise TestbedError(report.error)
            self._tell_router(Attach(host, self.spec.address(host)), *tuns)
            os.close(tuns[0])
            self._tell_router(self.links[host])
            here = self.layout.of(host)
            here.pid.write_text(str(self.inits[host]))
            remember_mounts(here)

    def _fork(self, host: str) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = fork_init()
        if pid == 0:
            _become(
                lambda: boot.run(self.spec, self.layout, host, theirs),
                keep=theirs,
                log=self.layout.owner_log,
            )
        theirs.close()
        self.inits[host] = pid
        self.layout.of(host).kmsg.write_text("")
        if self.spec.proctrack == "cgroup":
            state.join_cgroup(self.layout, host, pid)
        ours.send(b"!")
        return ours

    def obey(self, order: ToOwner) -> Answer:
        """Carry out one order."""
        match order:
            case Link() as link:
                self.links[link.host] = link
                self._tell_router(link)
            case PowerOff(host) if host in self.inits:
                self.power_off(host)
            case PowerOn(host) if host not in self.inits:
                self.boot(host)
            case Links():
                return Answer(links=tuple(self.links.values()))
        return Answer()

    def power_off(self, host: str) -> None:
        """The link goes first: nobody hears a dying machine say good-bye."""
        pid = self.inits[host]
        self._forget(host)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def _forget(self, host: str) -> None:
        self._tell_router(Detach(host))
        self.layout.of(host).pid.unlink(missing_ok=True)
        del self.inits[host]

    def notice_deaths(self) -> None:
        """A machine whose init has ended has lost power, whoever did it."""
        for host, pid in [*self.inits.items()]:
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._forget(host)

    def take_down(self) -> None:
        """End every process; returns when the kernel has cleared them away."""
        for pid in (self.router_pid, *self.inits.values()):
            os.kill(pid, signal.SIGKILL)
        for pid in (self.router_pid, *self.inits.values()):
            os.waitpid(pid, 0)

    def _tell_router(self, order: Attach | Detach | Link, *descriptors: int) -> None:
        socket.send_fds(self.router, [msgspec.json.encode(order)], list(descriptors))
        if not self.router.recv(16):
            raise TestbedError("the router is gone")


def _log_to(path: Path) -> None:
    """Let go of whoever waits for the end of our output."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)


def _start_router(log: Path) -> tuple[socket.socket, int]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _become(lambda: _route(theirs), keep=theirs, log=log)
    theirs.close()
    return ours, pid


def _route(orders: socket.socket) -> None:
    die_with_parent()
    Router(orders).run()


def _become(work: Callable[[], None], *, keep: socket.socket, log: Path) -> None:
    """In a forked child: do *work* with no descriptor but *keep*, and never return."""
    try:
        os.close(0)
        os.open(os.devnull, os.O_RDONLY)
        _log_to(log)
        os.closerange(3, keep.fileno())
        os.closerange(keep.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        signal.set_wakeup_fd(-1)
        for signum in (*STOPS, signal.SIGCHLD):
            signal.signal(signum, signal.SIG_DFL)
        work()
    finally:
        if sys.exc_info()[0]:
            traceback.print_exc()
        os._exit(1)


class Service:
    """The owner's loop: orders from the control socket until it is told to stop."""

    def __init__(self, owner: Owner, control: Path, *, tethered: bool) -> None:
        self.owner = owner
        self.stopping = False
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(control))
        self.listener.listen()
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.waker, wakes = socket.socketpair()
        for end in (self.waker, wakes):
            end.settimeout(0)
        self.wakes = wakes
        signal.set_wakeup_fd(wakes.fileno())
        self.selector.register(self.waker, selectors.EVENT_READ, self.wake)
        if tethered:
            self.selector.register(sys.stdin, selectors.EVENT_READ, self.untethered)

    def run(self) -> None:
        """Serve until told to stop, by order, by signal or by the end of the tether."""
        while not self.stopping:
            for key, _ in self.selector.select():
                key.data()

    def accept(self) -> None:
        connection, _ = self.listener.accept()
        self.selector.register(
            connection, selectors.EVENT_READ, lambda: self.answer(connection)
        )

    def answer(self, connection: socket.socket) -> None:
        try:
            message = connection.recv(MESSAGE_BYTES)
            if message:
                connection.send(msgspec.json.encode(self.reply(message)))
                return
        except ConnectionError:
            pass
        self.selector.unregister(connection)
        connection.close()

    def reply(self, message: bytes) -> Answer:
        try:
            order = msgspec.json.decode(message, type=ToOwner)
            if isinstance(order, Down):
                self.stopping = True
                return Answer()
            return self.owner.obey(order)
        except (TestbedError, msgspec.MsgspecError, OSError, KeyError) as error:
            return Answer(error=f"{error}")

    def wake(self) -> None:
        signals = {*self.waker.recv(64)}
        self.stopping |= bool(signals & STOPS)
        if signal.SIGCHLD in signals:
            self.owner.notice_deaths()

    def untethered(self) -> None:
        self.stopping |= not os.read(0, 64)


def main() -> int:
    """Bring a cluster up, own it, take it down."""
    spec = msgspec.json.decode(sys.argv[1], type=Spec)
    layout = Layout(spec.instance)
    for signum in (*STOPS, signal.SIGCHLD):
        signal.signal(signum, lambda *_: None)  # the wakeup descriptor tells the loop
    try:
        with held(layout):
            state.sweep(layout)
            state.lay_out(spec, layout)
            own(spec, layout, tethered="--tethered" in sys.argv)
    except (TestbedError, OSError) as error:
        print(f"{error}", flush=True)
        return 2
    return 0


def own(spec: Spec, layout: Layout, *, tethered: bool) -> None:
    """The life of a cluster."""
    owner = Owner(spec, layout)
    try:
        owner.boot(*spec.hosts)
        service = Service(owner, layout.control, tethered=tethered)
        print("up", flush=True)
        _log_to(layout.owner_log)
        service.run()
    finally:
        owner.take_down()
        state.sweep(layout)


if __name__ == "__main__":
    sys.exit(main())
