"""`node`: what we hold drained and why, and how to change it."""

import argparse

import msgspec

from slurm_resilience import config
from slurm_resilience.errors import UsageError
from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.reason import is_ours, parse_reason
from slurm_resilience.slurm.connect import connect
from slurm_resilience.slurm.door import Slurm
from slurm_resilience.slurm.values import Node


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    parser = commands.add_parser(
        "node",
        help="what is drained, why, and how to lift it",
        description="Drains that this project wrote, explained and lifted; those of others are "
        "shown, and left alone.",
    )
    doings = parser.add_subparsers(metavar="DOING", required=True)
    listing = doings.add_parser("list", help="nodes that we hold drained")
    listing.add_argument(
        "--json", action="store_true", help="one JSON document and nothing else"
    )
    listing.set_defaults(do=_list)
    explain = doings.add_parser("explain", help="why a node takes no work, and what helps")
    explain.add_argument("node", metavar="NODE")
    explain.set_defaults(do=_explain)
    drain = doings.add_parser(
        "drain", help="take a node out by hand; only a person lifts it then"
    )
    drain.add_argument("node", metavar="NODE")
    drain.add_argument("reason", metavar="REASON", help="what others read in `sinfo -R`")
    drain.set_defaults(do=_drain)
    resume = doings.add_parser("resume", help="lift a drain of ours")
    resume.add_argument("node", metavar="NODE")
    resume.set_defaults(do=_resume)


def _list(arguments: argparse.Namespace) -> int:
    ours = [node for node in _slurm().nodes() if node.is_drained and is_ours(node.reason)]
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(ours)).decode())
        return 0
    for node in ours:
        print(f"{node.name} {_state(node)} {node.reason}")
    if not ours:
        print("no node is drained by slurm-resilience")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    node = _known(_slurm(), arguments.node)
    print(f"{node.name} {_state(node)}")
    if not node.reason:
        print("  nobody has given a reason")
        return 0
    print(f"  reason: {node.reason}")
    reason = parse_reason(node.reason)
    if reason is None:
        print("  not ours: left alone, and lifted by whoever wrote it")
        return 0
    check = CHECKS.get(reason.check)
    meaning = check.meaning if check else "a check of another version of slurm-resilience"
    print(f"  {reason.check}: {meaning}")
    print(f"  once it is repaired: slurm-resilience node resume {node.name}")
    return 0


def _drain(arguments: argparse.Namespace) -> int:
    slurm = _slurm()
    node = _known(slurm, arguments.node)
    if is_ours(arguments.reason):
        raise UsageError(
            "a reason like that is lifted by the health check; use words of your own"
        )
    if not arguments.reason.strip():
        raise UsageError("a drain needs a reason; say what is wrong with the node")
    if node.reason:
        raise UsageError(f"{node.name} has a reason already, which stays: {node.reason}")
    slurm.drain(node.name, reason=arguments.reason)
    print(f"{node.name} drained: {arguments.reason}")
    return 0


def _resume(arguments: argparse.Namespace) -> int:
    slurm = _slurm()
    node = _known(slurm, arguments.node)
    if not node.is_drained:
        raise UsageError(f"{node.name} is not drained: {_state(node)}")
    if not is_ours(node.reason):
        raise UsageError(
            f"{node.name} was not drained by slurm-resilience ({node.reason or 'no reason'}); "
            f"if it is yours: scontrol update nodename={node.name} state=resume"
        )
    slurm.resume(node.name)
    print(f"{node.name} given back; it was drained for: {node.reason}")
    return 0


def _slurm() -> Slurm:
    return connect(config.load().slurm)


def _known(slurm: Slurm, name: str) -> Node:
    for node in slurm.nodes([name]):
        return node
    raise UsageError(f"{name}: Slurm knows no such node")


def _state(node: Node) -> str:
    return "+".join([node.state, *sorted(node.flags)])
