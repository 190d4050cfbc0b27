"""`check`, `facts`, `hook`: is this node fit."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from slurm_resilience.cli.printing import print_json, show
from slurm_resilience.errors import UsageError
from slurm_resilience.node.plan import PROFILES, here

if TYPE_CHECKING:
    from slurm_resilience.config import Config
    from slurm_resilience.node.facts import NodeFacts
    from slurm_resilience.node.findings import Finding

FIT, UNFIT, UNDECIDED = 0, 1, 3
HOOKS = ("prolog", "epilog", "health")
MOST_BYTES = 64 << 20
_NODE_NAME = re.compile(r"[A-Za-z0-9._-]+")

Verdict = Literal["fit", "unfit", "undecided"]


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    check = commands.add_parser(
        "check",
        help="is this node fit",
        description="Look at this node and judge it; changes nothing. "
        "Exit status 0: fit; 1: unfit; 3: undecided, something could not be seen.",
    )
    _add_common(check, "what to look at, as that hook would (default: full)")
    check.add_argument(
        "--facts", type=Path, metavar="FILE", help="judge recorded facts instead (-: stdin)"
    )
    check.set_defaults(do=_check)
    facts = commands.add_parser(
        "facts",
        help="what can be read on this node",
        description="Read this node's facts without judging them; `check --facts` takes them. With "
        "--learn: what this node has, as a profile for the configuration; a node that is not fit "
        "teaches nothing.",
    )
    _add_common(facts, "what to read (default: full)")
    facts.add_argument(
        "--learn", action="store_true", help="print a profile for nodes like this one, as YAML"
    )
    facts.add_argument(
        "--nodes", metavar="LIST", help='its nodes, "gpu[001-128]" (default: this one)'
    )
    facts.set_defaults(do=_facts)
    hook = commands.add_parser(
        "hook",
        help="run by hand what a shim under share/slurm-resilience runs for slurmd",
        description="Run a hook in the environment that slurmd gives it. Exit status 0: go on; "
        "10: unfit; anything else: could not check, which the shims turn into 0.",
    )
    hook.add_argument("hook", choices=HOOKS)
    hook.set_defaults(do=_hook)


def _add_common(parser: argparse.ArgumentParser, profile: str) -> None:
    parser.add_argument("--profile", choices=PROFILES, default="full", help=profile)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--config", type=Path, metavar="FILE", help="instead of the site's")


def _check(arguments: argparse.Namespace) -> int:
    from slurm_resilience.config import load  # noqa: PLC0415
    from slurm_resilience.node.rules import judge  # noqa: PLC0415

    config = load(arguments.config)
    if arguments.facts:
        facts = _recorded(arguments.facts)
        config = config.at(facts.node)
        findings = judge(facts, config.node)
    else:
        config = config.at(here())
        facts, findings = _looked(config, arguments.profile)
    verdict = _verdict(findings)
    off = () if arguments.facts else _switched_off(config)
    if arguments.json:
        document: dict[str, object] = {
            "node": facts.node,
            "verdict": verdict,
            "findings": findings,
            "off": off,
        }
        print_json(document)
    else:
        show(f"{facts.node}: {verdict}")
        for name in off:
            show(f"{'off':>16}  {name}, by a file on this node")
        for finding in findings:
            level = finding.severity.value
            show(f"{level:>16}  {finding.told}")
    return {"fit": FIT, "unfit": UNFIT, "undecided": UNDECIDED}[verdict]


def _facts(arguments: argparse.Namespace) -> int:
    from slurm_resilience.config import load  # noqa: PLC0415
    from slurm_resilience.node.facts import to_json  # noqa: PLC0415

    if arguments.learn:
        return _learn(arguments)
    if arguments.nodes:
        raise UsageError("--nodes says for which nodes to --learn; give both")
    facts = _read(load(arguments.config).at(here()), arguments.profile)
    if arguments.json:
        sys.stdout.write(to_json(facts).decode())
        return FIT
    show(f"{facts.node}  boot {facts.boot_id or '?'}")
    show(f"driver {facts.driver_version or facts.nvml_error or 'not read'}")
    for gpu in facts.gpus or ():
        state = "lost" if gpu.lost else f"{gpu.name or '?'}  {gpu.uuid or '?'}"
        show(f"gpu{gpu.index}  {gpu.pci or '?'}  {state}")
    for link in facts.links or ():
        rate = f"  {link.rate_gbps:g} Gb/s" if link.rate_gbps else ""
        show(f"{link.name}  {link.state or '?'}{rate}")
    for disk in facts.disks:
        show(f"{disk.path}  {disk.used_percent} % used")
    for event in facts.kernel_events or ():
        code = f" {event.code}" if event.code is not None else ""
        show(f"kernel  {event.kind}{code}  {event.pci or ''}  {event.text}")
    for name, why in {**facts.unread, **dict.fromkeys(facts.hung, "no answer in time")}.items():
        show(f"not read: {name}: {why}")
    return FIT


def _learn(arguments: argparse.Namespace) -> int:
    from slurm_resilience.config import load, to_yaml  # noqa: PLC0415
    from slurm_resilience.node.findings import Severity  # noqa: PLC0415
    from slurm_resilience.node.learning import as_profile, learn  # noqa: PLC0415
    from slurm_resilience.slurm.hostlist import expand  # noqa: PLC0415

    if arguments.json:
        raise UsageError("--learn prints YAML for the configuration; leave --json out")
    nodes = here() if arguments.nodes is None else arguments.nodes
    try:
        names = expand(nodes)
    except ValueError as error:
        raise UsageError(f"--nodes {nodes!r}: {error}") from error
    if wrong := [name for name in names if not _NODE_NAME.fullmatch(name)]:
        raise UsageError(f"--nodes {nodes!r}: {wrong[0]!r} is no name of a node")
    if not names:
        raise UsageError('--nodes: no node is named; for example "gpu[001-128]"')
    config = load(arguments.config).at(here())
    facts, findings = _looked(config, "full")
    if (verdict := _verdict(findings)) != "fit":
        unknown = (one for one in findings if one.severity is Severity.UNKNOWN)
        first = findings[0] if verdict == "unfit" else next(unknown)
        raise UsageError(
            f"{facts.node} is {verdict}, learn on a good node: {first.check} {first.subject}: {first.detail}"
        )
    expect = learn(facts, config.node.expect)
    sys.stdout.write(to_yaml(as_profile(expect, nodes)))
    return FIT


def _hook(arguments: argparse.Namespace) -> int:
    from slurm_resilience.node.hooks import run  # noqa: PLC0415

    return run(arguments.hook, os.environ)


def _recorded(path: Path) -> "NodeFacts":
    import msgspec  # noqa: PLC0415

    from slurm_resilience.node.facts import from_json  # noqa: PLC0415

    try:
        if str(path) == "-":
            text = sys.stdin.buffer.read(MOST_BYTES)
        else:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES)
        return from_json(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not facts as `facts --json` writes them: {error}") from error


def _read(config: "Config", profile: str) -> "NodeFacts":
    from slurm_resilience.node.plan import plan_of  # noqa: PLC0415
    from slurm_resilience.node.survey import read_facts  # noqa: PLC0415

    return read_facts(plan_of(config), profile)


def _looked(config: "Config", profile: str) -> "tuple[NodeFacts, tuple[Finding, ...]]":
    """This node's facts, and the findings as the hooks would count them."""
    from slurm_resilience.node import policy  # noqa: PLC0415
    from slurm_resilience.node.judging import judged  # noqa: PLC0415
    from slurm_resilience.node.plan import plan_of  # noqa: PLC0415
    from slurm_resilience.node.state import recall, switches  # noqa: PLC0415

    plan = plan_of(config)
    facts = _read(config, profile)
    findings = judged(plan, profile, facts, config.node)
    findings = policy.without(findings, switches.files_off(config.paths.state))
    history = policy.settle(recall.load(plan), facts.boot_id, None)
    return facts, policy.unsettled(findings, history)


def _switched_off(config: "Config") -> tuple[str, ...]:
    from slurm_resilience.node.state import switches  # noqa: PLC0415

    everything = ("all hooks",) if switches.is_all_off(config.paths.state) else ()
    return everything + switches.files_off(config.paths.state)


def _verdict(findings: "Sequence[Finding]") -> Verdict:
    from slurm_resilience.node.findings import is_clean, is_unfit  # noqa: PLC0415

    if is_unfit(findings):
        return "unfit"
    return "fit" if is_clean(findings) else "undecided"
