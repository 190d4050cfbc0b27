"""One node of a running cluster, and what can go wrong with it."""

import signal
import time
from pathlib import Path

from testbed import processes, sysfs
from testbed.commands import mounted
from testbed.errors import TestbedError
from testbed.gpus import Gpu, Scene, set_healthy, show, shown
from testbed.inside import Inside
from testbed.layout import CHECKOUT, USERS
from testbed.messages import Link, PowerOff, PowerOn
from testbed.ownership import ask
from testbed.state import empty

ERROR = 3
"""The kernel's priority of a message that tells of an error."""


class Node:
    """A node (or, named `ctl`, the controller). Every fault comes from outside the product."""

    def __init__(self, cluster: Inside, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.here = cluster.layout.of(name)
        self.sysfs = self.here.sysfs
        """What the product finds at its `paths.sysfs`: plain files, a healthy default."""
        self.kept = self.here.kept
        """The node's /var/lib/slurm-resilience."""

    # ── hardware ────────────────────────────────────────────────────────────────────────────

    def gpu(self, index: int) -> Gpu:
        """One of its GPUs."""
        return Gpu(self.here, index)

    @property
    def gpus(self) -> Scene:
        """All that NVML says; assign to change it."""
        return shown(self.here)

    @gpus.setter
    def gpus(self, scene: Scene) -> None:
        show(self.here, scene)

    def kmsg(self, text: str, *, priority: int = ERROR) -> None:
        """Append a record to the node's kernel log."""
        with self.here.kmsg.open("r+") as file:
            sequence = len(file.readlines())
            file.write(f"{priority},{sequence},{time.monotonic_ns() // 1000},-;{text}\n")

    # ── power and network ───────────────────────────────────────────────────────────────────

    def power_off(self) -> None:
        """Cut the link and kill everything on it, as a loss of power does: no good-bye."""
        ask(self.cluster.layout, PowerOff(self.name))

    def power_on(self) -> None:
        """Boot again: a new boot id, an empty kernel log, /tmp and /dev/shm; its daemons start."""
        ask(self.cluster.layout, PowerOn(self.name))

    @property
    def has_power(self) -> bool:
        """Whether it is on."""
        return self.here.pid.exists()

    def link(
        self,
        *,
        delay_ms: float = 0.0,
        loss: float = 0.0,
        rate_mbit: float = 0.0,
        cut: bool = False,
    ) -> None:
        """How its one link behaves from now on, each way (see `messages.Link`)."""
        link = Link(host=self.name, delay_ms=delay_ms, loss=loss, rate_mbit=rate_mbit, cut=cut)
        ask(self.cluster.layout, link)

    def link_down(self) -> None:
        """Lose every packet, silently."""
        self.link(cut=True)

    def link_up(self) -> None:
        """A fast link without faults."""
        self.link()

    # ── processes ───────────────────────────────────────────────────────────────────────────

    def pids(self, pattern: str = "") -> list[int]:
        """Ids, as the real machine sees them, of processes whose command line matches."""
        return processes.matching(self._init(), pattern)

    def pids_of(self, user: str) -> list[int]:
        """Everything that runs here as *user*; no zombies."""
        user_id = next(one.id for one in USERS if one.name == user)
        return [pid for pid in self.pids() if processes.owner(pid) == user_id]

    def ranks(self) -> dict[int, int]:
        """The training ranks that run here: rank -> process id as the real machine sees it."""
        return processes.ranks(self._init())

    def freeze(self, pattern: str) -> list[int]:
        """Stop (SIGSTOP) the processes whose command line matches; at least one must."""
        pids = self.pids(pattern)
        if not pids:
            raise TestbedError(f"{self.name}: no process matches {pattern!r}")
        processes.send(pids, signal.SIGSTOP)
        return pids

    def thaw(self, pattern: str = "") -> None:
        """Let stopped processes go on."""
        processes.send(self.pids(pattern), signal.SIGCONT)

    def end_strays(self) -> None:
        """Kill what belongs to no daemon, users' processes above all."""
        processes.send(processes.strays(self._init()), signal.SIGKILL)

    def runs_hooks(self) -> bool:
        """Whether a prolog, epilog or health check is at work."""
        return bool(processes.hooks(self._init()))

    def _init(self) -> int:
        try:
            return int(self.here.pid.read_text())
        except FileNotFoundError as error:
            raise TestbedError(f"{self.name} has no power") from error

    # ── file systems ────────────────────────────────────────────────────────────────────────

    def small_disk(self, path: str | Path, *, mib: int = 1) -> None:
        """Mount an empty file system of *mib* mebibytes at a directory (made where missing)."""
        options = f"size={mib}m,mode=1777"
        self._root("mkdir", "-p", str(path))
        self._root("mount", "-t", "tmpfs", "-o", options, "testbed-small", str(path))

    def fill_disk(self, path: str | Path) -> None:
        """Fill the small disk at *path* to its last byte."""
        if str(path) not in mounted(self.here):
            raise TestbedError(f"{path}: not a small disk of {self.name}; use small_disk first")
        self.cluster.run(
            ["dd", "if=/dev/zero", f"of={path}/.filler", "bs=4k"],
            on=self.name, user="root", cwd="/", check=False,
        )  # fmt: skip

    def read_only(self, path: str | Path) -> None:
        """Let nothing more be written below *path*, as after a file system's error."""
        self._root("mount", "--bind", str(path), str(path))
        self._root("mount", "-o", "remount,bind,ro", str(path))

    def hung_disk(self, path: str | Path) -> None:
        """Mount a file system at *path* that never answers: who looks is in D state."""
        self._root("mkdir", "-p", str(path))
        server = self.cluster.popen(
            ["python3", "-m", "testbed.hung_disk", str(path)],
            on=self.name, user="root", cwd=CHECKOUT,
        )  # fmt: skip
        if server.stdout is None or not server.stdout.readline():
            raise TestbedError(f"{path} cannot be hung:\n{server.communicate()[1]}")

    def _root(self, *argv: str) -> None:
        self.cluster.run(argv, on=self.name, user="root", cwd="/")

    # ── back to health ──────────────────────────────────────────────────────────────────────

    def heal(self) -> None:
        """Undo every fault."""
        if not self.has_power:
            self.power_on()
        self.thaw()
        self.link_up()
        for path in reversed(mounted(self.here)):
            self._root("umount", "-l", path)
        is_node = self.name in self.cluster.spec.node_names
        set_healthy(self.here, self.cluster.spec.gpus if is_node else 0)
        sysfs.write_healthy(self.sysfs)
        self.here.kmsg.write_text("")

    def forget(self) -> None:
        """End what still runs here beside the daemons, and remove what the product has kept."""
        self.end_strays()
        empty(self.kept)
