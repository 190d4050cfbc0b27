"""The cluster as its user sees it: bring it up, run things on it, look at it."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from testbed import commands
from testbed.errors import TestbedError
from testbed.layout import CHECKOUT, Layout, Spec
from testbed.messages import Answer, Down, ToOwner

T = TypeVar("T")
UP_S = 60.0
DOWN_S = 20.0


class Cluster:
    """A running cluster; get one from `Cluster.up` or `Cluster.attach`."""

    def __init__(self, spec: Spec, owner: "subprocess.Popen[str] | None" = None) -> None:
        self.spec = spec
        self.layout = Layout(spec.instance)
        self.shared = self.layout.shared
        self.logs = self.layout.logs
        self._owner = owner

    @classmethod
    def up(
        cls,
        *,
        nodes: int = 4,
        gpus: int = 8,
        instance: int = 0,
        proctrack: Literal["linuxproc", "cgroup"] = "linuxproc",
        hooks: bool = True,
        config: str = "",
        slurm_conf: Mapping[str, str] | None = None,
        detached: bool = False,
    ) -> "Cluster":
        """
        Start a cluster and wait until every node is idle.

        It goes down at the end of the `with` block, and with this process however that ends,
        unless it is *detached*.
        """
        spec = Spec(
            instance=instance, nodes=nodes, gpus=gpus, proctrack=proctrack, hooks=hooks,
            config=config, slurm_conf=slurm_conf or {},
        )  # fmt: skip
        check_machine()
        owner = subprocess.Popen(
            [sys.executable, "-m", "testbed.daemon", msgspec.json.encode(spec).decode()]
            + ([] if detached else ["--tethered"]),
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        cluster = cls(spec, owner)
        try:
            assert owner.stdout is not None
            said = owner.stdout.readline().strip()
            if said != "up":
                raise TestbedError(said or "the owner process died; see its message above")
            cluster.wait_for(cluster.is_idle, UP_S, "every node idle")
        except BaseException:
            cluster.down()
            raise
        return cluster

    @classmethod
    def attach(cls, instance: int = 0) -> "Cluster":
        """A cluster that is up already."""
        layout = Layout(instance)
        try:
            spec = msgspec.json.decode(layout.spec.read_bytes(), type=Spec)
        except FileNotFoundError as error:
            raise TestbedError(f"instance {instance} is not up") from error
        cluster = cls(spec)
        cluster.order(msgspec.json.decode(b'{"type":"Links"}', type=ToOwner))
        return cluster

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def down(self) -> None:
        """End everything and remove every trace."""
        with contextlib.suppress(TestbedError):
            self.order(Down())
        if self._owner is not None:
            for stream in (self._owner.stdin, self._owner.stdout):
                if stream is not None:
                    stream.close()
            try:
                self._owner.wait(DOWN_S)
            except subprocess.TimeoutExpired:
                self._owner.kill()
                self._owner.wait()
        else:
            self.wait_for(
                lambda: not self.layout.state.exists(), DOWN_S, "state directory gone"
            )

    def order(self, order: ToOwner) -> Answer:
        """Ask the owner process to do something."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as owner:
            try:
                owner.connect(str(self.layout.control))
                owner.send(msgspec.json.encode(order))
                reply = owner.recv(1 << 16)
            except OSError as error:
                raise TestbedError(f"instance {self.spec.instance} is not up") from error
        answer = msgspec.json.decode(reply or b"{}", type=Answer)
        if answer.error:
            raise TestbedError(answer.error)
        return answer

    # ── running things ──────────────────────────────────────────────────────────────────────

    def popen(
        self,
        argv: Sequence[str],
        *,
        user: str = "alice",
        on: str = "ctl",
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "subprocess.Popen[str]":
        """Start a command on a machine; its streams are text pipes."""
        return subprocess.Popen(
            commands.inside(self.spec, on, user, argv, cwd),
            env=commands.environment(self.spec, user, env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "alice",
        on: str = "ctl",
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command on a machine to its end; a failure shows what it printed."""
        with self.popen(argv, user=user, on=on, cwd=cwd, env=env) as process:
            try:
                out, err = process.communicate(stdin, timeout_s)
            except BaseException:
                commands.end(process)
                raise
        done = subprocess.CompletedProcess(argv, process.returncode, out, err)
        if check and done.returncode:
            raise TestbedError(
                f"{' '.join(argv)} on {on} as {user}: exit status {done.returncode}\n{out}{err}"
            )
        return done

    def sbatch(
        self,
        arguments: Sequence[str],
        *,
        user: str = "alice",
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> str:
        """Submit; returns the job id. *stdin* is the script where no file is named."""
        done = self.run(
            ["sbatch", "--parsable", *arguments], user=user, cwd=cwd, env=env, stdin=stdin
        )
        return done.stdout.strip().split(";")[0]

    # ── looking ─────────────────────────────────────────────────────────────────────────────

    def job(self, job: str) -> dict[str, str]:
        """`scontrol show job`, key by key; empty where Slurm knows none."""
        done = self.run(["scontrol", "-o", "show", "job", job], user="root", check=False)
        return parse_oneliner(done.stdout)

    def node_state(self, node: str) -> str:
        """Slurm's state of a node with its flags: `IDLE`, `IDLE+DRAIN`, `DOWN*`…"""
        return self.node_states()[node]

    def node_states(self) -> dict[str, str]:
        """Slurm's state of every node."""
        done = self.run(["scontrol", "-o", "show", "node"], user="root", check=False)
        nodes = [parse_oneliner(line) for line in done.stdout.splitlines()]
        return {node["NodeName"]: node["State"] for node in nodes if "State" in node}

    def is_idle(self) -> bool:
        """Whether every node could take work and has none."""
        states = self.node_states()
        return len(states) == self.spec.nodes and set(states.values()) == {"IDLE"}

    def home(self, user: str) -> Path:
        """A user's home, by its path on this machine (the same path works inside)."""
        return self.shared / "home" / user

    def wait_for(
        self, what: Callable[[], T], timeout_s: float = 30.0, describe: str = "it"
    ) -> T:
        """
        The first truthy value of *what*.

        `TestbedError` after *timeout_s* shows the last value and the ends of Slurm's logs.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            value = what()
            if value:
                return value
            if time.monotonic() > deadline:
                raise TestbedError(
                    f"waited {timeout_s:g} s for {describe}; last seen: {value!r}\n{self.tails()}"
                )
            time.sleep(0.05)

    def tails(self, lines: int = 15) -> str:
        """The ends of all logs."""
        parts = []
        for log in sorted(self.logs.glob("*")):
            text = log.read_text(errors="replace").splitlines()[-lines:]
            if text:
                parts.append("\n".join([f"── {log.name}", *text]))
        return "\n".join(parts)


def parse_oneliner(line: str) -> dict[str, str]:
    """One line of `scontrol --oneliner`; a word without `=` belongs to the value before it."""
    fields: dict[str, str] = {}
    key = ""
    for word in line.split():
        name, separator, value = word.partition("=")
        if separator and name[:1].isupper():
            key = name
            fields[key] = value
        elif key:
            fields[key] += f" {word}"
    return fields


def check_machine() -> None:
    """Refuse, in one line, a machine that cannot host a cluster."""
    if os.geteuid() != 0:
        raise TestbedError("the testbed makes namespaces: run it as root")
    missing = [
        name
        for name in ("slurmctld", "slurmd", "munged", "srun", "ip", "nsenter")
        if not shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    ]
    if missing:
        raise TestbedError(
            f"{', '.join(missing)} not found: apt-get install -y --no-install-recommends "
            "slurmctld slurmd slurm-client munge iproute2 util-linux"
        )
