"""The life of a cluster: up, attach, reset, down."""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Literal

import msgspec

from testbed import configuration
from testbed.errors import TestbedError
from testbed.inside import Inside
from testbed.layout import CHECKOUT, CONTROLLER, USERS, Layout, Spec
from testbed.messages import Links
from testbed.nodes import Node
from testbed.ownership import ask, clear
from testbed.slurm_conf import hook_programs
from testbed.state import empty

UP_S = 60.0
RESET_S = 90.0
PACKAGES = "slurmctld slurmd slurm-client munge iproute2 util-linux gcc libc6-dev"
PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "ip", "nsenter", "gcc")


class Cluster(Inside):
    """A running cluster; get one from `Cluster.up` or `Cluster.attach`."""

    def __init__(self, spec: Spec, owner: "subprocess.Popen[str] | None" = None) -> None:
        super().__init__(spec)
        self.nodes = {name: Node(self, name) for name in spec.node_names}
        self.controller = Node(self, CONTROLLER)
        """
        `ctl`: slurmctld's machine and the users' login node. slurmctld saves its state every 5 s:
        what is younger is lost with its power.
        """
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

        It goes down at the end of a `with` block, and with this process however that ends,
        unless it is *detached*.
        """
        spec = Spec(
            instance=instance, nodes=nodes, gpus=gpus, proctrack=proctrack, hooks=hooks,
            config=config, slurm_conf=slurm_conf or {},
        )  # fmt: skip
        spec.check()
        check_machine(spec)
        owner = subprocess.Popen(
            [sys.executable, "-m", "testbed.daemon", msgspec.json.encode(spec).decode()]
            + ([] if detached else ["--tethered"]),
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        _await_up(owner)
        cluster = cls(spec, owner)
        try:
            cluster.check_users()
            cluster.wait_for(cluster.is_idle, UP_S, "every node idle")
        except BaseException:
            cluster.down()
            raise
        return cluster

    @classmethod
    def attach(cls, instance: int = 0) -> "Cluster":
        """A cluster that is up already."""
        layout = Layout(instance)
        ask(layout, Links())
        return cls(msgspec.json.decode(layout.spec.read_bytes(), type=Spec))

    def __enter__(self) -> "Cluster":  # noqa: PYI034 - typing.Self is not in Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def down(self) -> None:
        """End everything and remove every trace."""
        clear(self.layout)
        self._end_commands()
        if self._owner is not None:
            self._owner.communicate()

    def configure(self, text: str) -> None:
        """Replace the product's configuration on every machine by *text* over the testbed's."""
        configuration.write(self.layout, text)

    def reset(self) -> None:
        """
        Give the next test a cluster as after `up`: no job, no fault, every node idle.

        Empties the users' homes and what the product keeps on each machine. Jobs that are over
        stay known to Slurm, and job ids go on.
        """
        self._end_commands()
        self.configure(self.spec.config)
        machines = (self.controller, *self.nodes.values())
        for machine in machines:
            machine.heal()
        self.wait_for(self._has_no_jobs, RESET_S, "an empty queue")
        # One that has read a fault before it was healed would still drain its node.
        self.wait_for(self._runs_no_hooks, RESET_S)
        for machine in machines:
            machine.forget()
        self.wait_for(self._has_resumed, RESET_S, "every node idle")
        for user in USERS:
            empty(self.home(user.name))

    def _has_no_jobs(self) -> bool:
        """Whether the queue is empty; cancels what is in it, and does not wait for KillWait."""
        # Slurm refuses to cancel a requeued array task by its plain number: take 6_2, not 8.
        show = ["squeue", "--array", "--noheader", "--format=%i"]
        queue = self.run(show, user="root", check=False).stdout.split()
        if queue:
            self.run(["scancel", *queue], user="root", check=False)
            for node in self.nodes.values():
                node.end_strays()
        return not queue

    def _runs_no_hooks(self) -> bool:
        return not any(node.runs_hooks() for node in self.nodes.values())

    def _has_resumed(self) -> bool:
        """Whether every node is idle; resumes those that are drained or down."""
        for name, state in self.node_states().items():
            if "DRAIN" in state or "DOWN" in state or "FAIL" in state:
                update = ["scontrol", "update", f"NodeName={name}", "State=RESUME"]
                self.run(update, user="root", check=False)
        return self.is_idle()

    def check_users(self) -> None:
        """Refuse, in one line, an environment that the cluster's users cannot run."""
        python = f"{self.spec.prefix}/bin/python3"
        done = self.run([python, "-c", "import slurm_resilience"], cwd="/", check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise TestbedError(
                f"ordinary users cannot run {python} inside the cluster ({why}); "
                "install this project there, in a place that is readable for all"
            )


def check_machine(spec: Spec) -> None:
    """Refuse, in one line, a machine that cannot host this cluster."""
    if os.geteuid() != 0:
        raise TestbedError("the testbed makes namespaces: run it as root")
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing:
        install = f"apt-get install -y --no-install-recommends {PACKAGES}"
        raise TestbedError(f"{', '.join(missing)} not found: {install}")
    try:
        pwd.getpwnam("slurm")
    except KeyError as error:
        raise TestbedError("there is no user slurm: reinstall the package slurmctld") from error
    for program in hook_programs(spec.prefix).values() if spec.hooks else ():
        if not os.access(program, os.X_OK):
            raise TestbedError(
                f"{program} not found: pip install this project into {spec.prefix}"
            )


def _await_up(owner: "subprocess.Popen[str]") -> None:
    assert owner.stdout is not None
    said = owner.stdout.readline().strip()
    if said != "up":
        owner.communicate()
        raise TestbedError(said or "the owner process died; what it said stands above")
