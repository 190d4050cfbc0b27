"""`node`: what we hold drained and why, and how to change it."""

import argparse
import time

from slurm_resilience import config
from slurm_resilience.cli.printing import print_json, show
from slurm_resilience.errors import UsageError
from slurm_resilience.node.explanation import Explanation, explain, shown
from slurm_resilience.node.plan import here
from slurm_resilience.node.policy import strikes
from slurm_resilience.node.policy.reason import is_ours
from slurm_resilience.node.policy.standing import Visited
from slurm_resilience.node.state import recall, switches
from slurm_resilience.slurm.connect import connect
from slurm_resilience.slurm.door import Slurm
from slurm_resilience.slurm.values import Node


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    parser = commands.add_parser(
        "node",
        help="what is drained, why, and how to lift it",
        description="Drains that this project wrote, explained and lifted; those of others are "
        "shown, and left alone. Checks of this node, switched off and on.",
    )
    doings = parser.add_subparsers(metavar="DOING", required=True)
    listing = doings.add_parser("list", help="nodes that we hold drained")
    listing.add_argument(
        "--json", action="store_true", help="one JSON document and nothing else"
    )
    listing.set_defaults(do=_list)
    why = doings.add_parser(
        "explain",
        help="why a node takes no work, and what helps",
        description="What is wrong, since when, whose drain it is, what to do. Run on that node "
        "as root it also shows what the last hook found there.",
    )
    why.add_argument("node", metavar="NODE")
    why.add_argument("--json", action="store_true", help="one JSON document and nothing else")
    why.set_defaults(do=_explain)
    drain = doings.add_parser(
        "drain", help="take a node out by hand; only a person lifts it then"
    )
    drain.add_argument("node", metavar="NODE")
    drain.add_argument("reason", metavar="REASON", help="what others read in `sinfo -R`")
    drain.set_defaults(do=_drain)
    resume = doings.add_parser("resume", help="lift a drain of ours")
    resume.add_argument("node", metavar="NODE")
    resume.set_defaults(do=_resume)
    for doing, on in (("off", False), ("on", True)):
        switch = doings.add_parser(
            doing,
            help=f"switch a check, or all hooks, {doing} on this node, at once",
            description=f"Switch one check, or all hooks, {doing} on the node where this runs; root "
            "only. It is a file under paths.state, so it outlasts a reboot.",
        )
        switch.add_argument("what", metavar="CHECK|all")
        switch.set_defaults(do=_switch, on=on)


def _list(arguments: argparse.Namespace) -> int:
    ours = [node for node in _slurm().nodes() if node.is_drained and is_ours(node.reason)]
    if arguments.json:
        print_json(ours)
        return 0
    for node in ours:
        show(f"{node.name} {shown(node)} {node.reason}")
    if not ours:
        print("no node is drained by slurm-resilience")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    settings = config.load()
    node = _known(connect(settings.slurm), arguments.node)
    told = explain(node, *_remembered(settings.at(node.name), node.name))
    if arguments.json:
        print_json(told)
        return 0
    for line in _lines(told, settings.node.resume_after):
        show(line)
    return 0


def _remembered(
    settings: config.Config, node: str
) -> tuple[Visited | None, tuple[strikes.Strike, ...]]:
    """What the node itself knows, where this is that node and may be asked."""
    if here() != node:
        return None, ()
    state, within_s = settings.paths.state, settings.node.drains.repeats_s
    found, _ = recall.strikes(state)
    return recall.last_visit(state), strikes.recent(found, now=time.time(), within_s=within_s)


def _lines(told: Explanation, passes: int) -> list[str]:
    lines = [f"{told.node} {told.state}"]
    if told.whose == "nobody":
        lines.append("  nobody has given a reason")
    else:
        lines.append(f"  reason: {told.reason}")
        lines += [f"  since {_moment(told.since)}"] if told.since else []
    if told.whose == "theirs":
        lines += [f"  {told.meaning}"] if told.meaning else []
        lines.append("  not ours: left alone, and lifted by whoever wrote it")
    if told.whose == "ours":
        lines += _lines_of_ours(told, passes)
    if told.seen_at is not None:
        lines.append(f"  seen by the {told.seen_by} hook at {_moment(told.seen_at)}:")
        lines += [f"    {one.severity.value}: {one.told}" for one in told.evidence] or [
            "    nothing wrong"
        ]
    elif told.drained:
        lines.append(f"  more is kept on {told.node}, for root to ask there")
    return lines


def _lines_of_ours(told: Explanation, passes: int) -> list[str]:
    lines = [f"  {told.check}: {told.meaning}"] if told.check else []
    lines += [f"  what to do: {told.advice}"] if told.advice else []
    if told.drained and told.person:
        lines.append(f"  lifted: {told.person}")
    elif told.drained:
        lines.append(
            f"  lifted: by the node's health check, once it was clean {passes} times in a row"
        )
    by_hand = f"slurm-resilience node resume {told.node}"
    return [*lines, f"  once it is repaired: {by_hand}"] if told.drained else lines


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _switch(arguments: argparse.Namespace) -> int:
    state = config.load().paths.state
    path = switches.switch(state, arguments.what, on=arguments.on)
    if not arguments.on:
        print(f"{arguments.what}: off on this node, by {path}; back: node on {arguments.what}")
        return 0
    print(f"{arguments.what}: on again on this node")
    for name in switches.files_off(state):
        show(f"still off: {name}")
    if switches.is_all_off(state):
        print("still off: all")
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
        raise UsageError(f"{node.name} is not drained: {shown(node)}")
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
