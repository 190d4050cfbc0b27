"""
A Slurm cluster on this machine, for people.

    python -m testbed up [--nodes 4] [--gpus 8] [--instance 0] [--foreground]
    python -m testbed run [--user alice] [--on ctl] -- COMMAND…
    python -m testbed inject NODE gpu 3 ecc_uncorrected=1
    python -m testbed inject NODE xid 79 [TEXT] | kmsg "TEXT"
    python -m testbed inject NODE link down | up | delay=50 loss=0.1 rate=100
    python -m testbed inject NODE power off | on
    python -m testbed inject NODE freeze | thaw PATTERN
    python -m testbed status | reset | down [--all]
"""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from slurm_resilience.errors import ResilienceError
from testbed import commands, faults
from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.layout import CONTROLLER, ROOT, Layout
from testbed.ownership import clear

COULD_NOT = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 2 with one line where it could not be done."""
    arguments = _parser().parse_args(argv)
    try:
        if os.geteuid() != 0:
            raise TestbedError("the testbed makes namespaces: run it as root")
        status: int = arguments.do(arguments)
    except ResilienceError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return COULD_NOT
    return status


def up(arguments: argparse.Namespace) -> int:
    """Start a cluster; in the background, or for as long as this process lives."""
    cluster = Cluster.up(
        nodes=arguments.nodes,
        gpus=arguments.gpus,
        instance=arguments.instance,
        proctrack=arguments.proctrack,
        hooks=not arguments.no_hooks,
        config=_text(arguments.config) if arguments.config else "",
        detached=not arguments.foreground,
    )
    print(
        f"up: {', '.join(cluster.spec.hosts)}; files of all users: {cluster.shared}", flush=True
    )
    if arguments.foreground:
        with cluster:
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


def down(arguments: argparse.Namespace) -> int:
    """Take a cluster down and remove what one that was killed has left."""
    for instance in _instances() if arguments.all else [arguments.instance]:
        clear(Layout(instance))
    if arguments.all:
        with contextlib.suppress(OSError):  # not there, or somebody has just started a cluster
            ROOT.rmdir()
    return 0


def status(_arguments: argparse.Namespace) -> int:
    """What is up, and how its nodes are; 1 where nothing is."""
    up_now = 0
    for instance in _instances():
        try:
            cluster = Cluster.attach(instance)
        except TestbedError:  # its lock file alone is there, or it is on its way down
            continue
        up_now += 1
        print(f"instance {instance}: {cluster.shared}")
        for node, state in cluster.node_states().items():
            power = "" if cluster.nodes[node].has_power else " (no power)"
            print(f"  {node:<6} {state}{power}")
    if not up_now:
        print("nothing is up")
    return 0 if up_now else 1


def run(arguments: argparse.Namespace) -> int:
    """Become a command inside the cluster."""
    cluster = Cluster.attach(arguments.instance)
    argv = commands.wrapped(
        cluster.spec, arguments.on, arguments.user, arguments.command or ["bash"], None
    )
    os.execvpe(argv[0], argv, commands.environment(cluster.spec, arguments.user, None))


def reset(arguments: argparse.Namespace) -> int:
    """Cancel all jobs, undo all faults."""
    Cluster.attach(arguments.instance).reset()
    return 0


def inject(arguments: argparse.Namespace) -> int:
    """Break something on one node, or mend it."""
    cluster = Cluster.attach(arguments.instance)
    machines = {CONTROLLER: cluster.controller, **cluster.nodes}
    if arguments.node not in machines:
        raise TestbedError(f"no node {arguments.node!r}; there are {', '.join(machines)}")
    faults.inject(machines[arguments.node], arguments.fault, arguments.words)
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TestbedError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _instances() -> list[int]:
    return sorted({int(path.stem) for path in ROOT.glob("[0-9]*") if path.stem.isdigit()})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m testbed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(all=False)
    each = argparse.ArgumentParser(add_help=False)
    each.add_argument("--instance", type=int, default=0, help="which cluster (default 0)")
    kinds = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, do: object) -> argparse.ArgumentParser:
        command = kinds.add_parser(name, parents=[each], help=str(do.__doc__).strip())
        command.set_defaults(do=do)
        return command

    command = add("up", up)
    command.add_argument("--nodes", type=int, default=4)
    command.add_argument("--gpus", type=int, default=8, help="on each node")
    command.add_argument("--proctrack", choices=("linuxproc", "cgroup"), default="linuxproc")
    command.add_argument("--no-hooks", action="store_true", help="without prolog and epilog")
    command.add_argument(
        "--config", type=Path, help="YAML for /etc/slurm-resilience/config.yaml"
    )
    command.add_argument("--foreground", action="store_true", help="until Ctrl-C")
    add("down", down).add_argument("--all", action="store_true", help="every instance")
    add("status", status)
    add("reset", reset)
    command = add("run", run)
    command.add_argument("--user", default="alice")
    command.add_argument("--on", default=CONTROLLER, metavar="NODE")
    command.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    command = add("inject", inject)
    command.add_argument("node", metavar="NODE")
    command.add_argument("fault", choices=faults.KINDS)
    command.add_argument("words", nargs="*", metavar="…")
    return parser


if __name__ == "__main__":
    sys.exit(main())
