"""What one machine of the cluster does from power-on: process 1 of its namespaces."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from testbed import file_tree
from testbed.errors import TestbedError
from testbed.layout import CONTROLLER, MTU, Layout, Spec
from testbed.namespaces import (
    NEW_CGROUPS,
    NEW_IPC,
    NEW_MOUNTS,
    NEW_NET,
    NEW_UTS,
    die_with_parent,
    open_tun,
    unshare,
)

BOOT_S = 25.0
DAEMON_S = 10.0
SLURMCTLD_PORT = 6817
SLURMD_PORT = 6818
MUNGE_SOCKET = Path("/run/munge/munge.socket.2")


class Booted(msgspec.Struct, frozen=True):
    """What init reports once: its TUN device comes with it where *error* is empty."""

    error: str = ""


def run(spec: Spec, layout: Layout, host: str, owner: socket.socket) -> None:
    """Be *host*: never returns before the power goes."""
    die_with_parent()
    os.setsid()
    Path("/proc/self/comm").write_text("init")
    if owner.recv(1) != b"!":  # the owner was gone before die_with_parent() could see it
        return
    try:
        unshare(NEW_MOUNTS | NEW_NET | NEW_UTS | NEW_IPC | NEW_CGROUPS)
        file_tree.enter(spec, layout, host)
        tun = open_tun("eth0")
        _configure_network(spec.address(host))
        _start_daemons(host)
    except (OSError, TestbedError, subprocess.SubprocessError) as error:
        owner.send(msgspec.json.encode(Booted(f"{host}: {error}")))
        return
    socket.send_fds(owner, [msgspec.json.encode(Booted())], [tun])
    os.close(tun)
    owner.close()
    _reap_for_ever()


def _configure_network(address: str) -> None:
    Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
    commands = (
        "link set lo up",
        f"link set eth0 mtu {MTU} up",
        f"address add {address}/24 dev eth0",
    )
    subprocess.run(
        ["ip", "-batch", "-"],
        input="\n".join(commands),
        text=True,
        check=True,
        capture_output=True,
    )


def _start_daemons(host: str) -> None:
    MUNGE_SOCKET.parent.mkdir()
    _start(host, "munged", "--foreground", "--force", "--num-threads=2")
    _wait_for("munged", MUNGE_SOCKET.exists)
    if host == CONTROLLER:
        _start(host, "slurmctld", "-D")
        _wait_for("slurmctld", lambda: _listens(SLURMCTLD_PORT))
    else:
        _start(host, "slurmd", "-D", "-N", host)
        _wait_for("slurmd", lambda: _listens(SLURMD_PORT))


def _wait_for(program: str, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DAEMON_S
    while not ready():
        ended, _ = os.waitpid(-1, os.WNOHANG)
        if ended or time.monotonic() > deadline:
            log = sorted(Path("/var/log/slurm").glob(f"{program}.{socket.gethostname()}.err"))
            last = log[0].read_text(errors="replace").strip().splitlines()[-2:] if log else []
            raise TestbedError(f"{program} did not start: {' '.join(last)}")
        time.sleep(0.005)


def _listens(port: int) -> bool:
    """Whether somebody listens; found out without a connection that would be logged."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(f":{port:04X} 00000000:0000 0A" in line for line in lines)


def _start(host: str, program: str, *arguments: str) -> None:
    with Path(f"/var/log/slurm/{program}.{host}.err").open("ab") as log:
        subprocess.Popen(
            [f"/usr/sbin/{program}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
            start_new_session=True,
        )


def _reap_for_ever() -> None:
    """The kernel reaps for a process 1 that ignores SIGCHLD."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    while True:
        signal.pause()
