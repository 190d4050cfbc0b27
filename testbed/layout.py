"""What a cluster is made of, and where its files lie."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from testbed.errors import TestbedError

ROOT = Path("/var/tmp/slurm-testbed")
CHECKOUT = Path(__file__).resolve().parent.parent
CONTROLLER = "ctl"
MTU = 9000
MOST_NODES = 200
MOST_GPUS = 16


class User(msgspec.Struct, frozen=True):
    """Somebody who exists only inside the cluster."""

    name: str
    id: int

    @property
    def home(self) -> str:
        """As seen from inside."""
        return f"/shared/home/{self.name}"


USERS = (User("alice", 61001), User("bob", 61002))


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster as asked for."""

    instance: int = 0
    nodes: int = 4
    gpus: int = 8
    """On each node."""
    proctrack: Literal["linuxproc", "cgroup"] = "linuxproc"
    hooks: bool = True
    """Prolog, Epilog and HealthCheckProgram."""
    config: str = ""
    """YAML, merged over the testbed's own /etc/slurm-resilience/config.yaml."""
    slurm_conf: Mapping[str, str] = {}
    """Keys of slurm.conf, set or replaced."""
    prefix: str = sys.prefix
    """The environment that the product is installed in."""

    @property
    def node_names(self) -> tuple[str, ...]:
        """Compute nodes, without the controller."""
        return tuple(f"n{number}" for number in range(1, self.nodes + 1))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every machine: the controller first."""
        return (CONTROLLER, *self.node_names)

    def address(self, host: str) -> str:
        """The IPv4 address of a machine; the network is the cluster's own."""
        return f"10.77.0.{1 if host == CONTROLLER else 11 + self.node_names.index(host)}"

    def check(self) -> None:
        """Refuse, in one line, what cannot be built."""
        if not 1 <= self.nodes <= MOST_NODES:
            raise TestbedError(f"{self.nodes} nodes: from 1 to {MOST_NODES}")
        if not 0 <= self.gpus <= MOST_GPUS:
            raise TestbedError(f"{self.gpus} GPUs a node: from 0 to {MOST_GPUS}")
        if self.instance < 0:
            raise TestbedError(f"instance {self.instance}: from 0")


class Layout:
    """Paths of one instance on the machine that it runs on."""

    def __init__(self, instance: int) -> None:
        self.instance = instance
        self.state = ROOT / str(instance)
        self.lock = ROOT / f"{instance}.lock"
        self.mark = self.state / ".slurm-testbed"
        self.spec = self.state / "spec.json"
        self.control = self.state / "control"
        self.shared = self.state / "shared"
        self.logs = self.state / "logs"
        self.owner_log = self.logs / "owner.log"
        self.etc = self.state / "etc"
        self.cgroup = f"slurm-testbed-{instance}"
        """Name of the one directory made in a cgroup hierarchy."""

    def of(self, host: str) -> "HostLayout":
        """Paths of one machine of the cluster."""
        return HostLayout(self.state / "nodes" / host)


class HostLayout:
    """Paths of one machine of the cluster: what it keeps over a loss of power."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.root = state / "root"
        """Where its file tree is put together; empty from outside."""
        self.run = state / "run"
        """At /run/testbed inside: the kernel log, GPU state, sysfs entries."""
        self.kept = state / "kept"
        """At /var/lib/slurm-resilience inside."""
        self.spool = state / "spool"
        """At /var/spool/slurm inside."""
        self.pid = state / "init.pid"
        """Process id of its init, seen from outside; absent while it has no power."""
        self.kmsg = self.run / "kmsg"
        self.sysfs = self.run / "sysfs"
        self.nvml = self.run / "nvml"
        self.scene = state / "scene"
        """The GPUs' state, to be read back."""
        self.mounts = state / "mounts"
        """Where something was mounted when it had booted."""
