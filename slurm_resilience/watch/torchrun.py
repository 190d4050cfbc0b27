"""
The user's command as each node must start it: torchrun told how many nodes there are, which one
this is and where to meet. Whatever the user said on the command line stays.
"""

from collections.abc import Mapping, Sequence
from posixpath import basename

import msgspec

PROGRAMS = frozenset({"torchrun"})
MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
"""Behind `python -m`: torchrun by its other names, with the same options."""
OWN_RENDEZVOUS = (
    "--standalone", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf",
    "--master-addr", "--master-port", "--node-rank",
)  # fmt: skip
FLAGS = (
    "--standalone", "-m", "--module", "--no-python", "--run-path", "--use-env",
    "--virtual-local-rank",
)  # fmt: skip
"""Options without a value."""


class Meeting(msgspec.Struct, frozen=True):
    """How the ranks of all nodes find each other."""

    nodes: int
    node_rank: int
    address: str
    port: int
    ranks_here: int


def with_meeting(command: Sequence[str], meeting: Meeting) -> list[str]:
    """*command* with torchrun's options for this node; unchanged where it names no torchrun."""
    at = after_torchrun(command)
    if at is None:
        return list(command)
    options = own_options(command[at:])
    added: list[str] = []
    if not options & set(OWN_RENDEZVOUS):
        added += [
            f"--node-rank={meeting.node_rank}",
            f"--master-addr={meeting.address}",
            f"--master-port={meeting.port}",
        ]
        if "--nnodes" not in options:
            added.append(f"--nnodes={meeting.nodes}")
    if "--nproc-per-node" not in options:
        added.append(f"--nproc-per-node={meeting.ranks_here}")
    return [*command[:at], *added, *command[at:]]


def without_torchrun(command: Sequence[str], meeting: Meeting) -> dict[str, str]:
    """
    What torch's `env://` rendezvous reads, for a command that is itself the one rank of its
    node; empty where torchrun sets it.
    """
    if after_torchrun(command) is not None:
        return {}
    return {
        "RANK": str(meeting.node_rank),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(meeting.nodes),
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": meeting.address,
        "MASTER_PORT": str(meeting.port),
    }


def after_torchrun(command: Sequence[str]) -> int | None:
    """Where torchrun's own options begin, None where the command names no torchrun."""
    for index, word in enumerate(command):
        if basename(word) in PROGRAMS:
            return index + 1
        if word in MODULES and index and command[index - 1] == "-m":
            return index + 1
    return None


def own_options(arguments: Sequence[str]) -> set[str]:
    """Options before the script, spelt with dashes; values and the script's own are left out."""
    found: set[str] = set()
    takes_value = False
    for word in arguments:
        if not word.startswith("-"):
            if not takes_value:
                break
            takes_value = False
            continue
        name, equals, _ = word.partition("=")
        if name.startswith("--"):
            name = f"--{name[2:].replace('_', '-')}"
        found.add(name)
        takes_value = not equals and name not in FLAGS
    return found


def ranks_in_words(
    command: Sequence[str], asked: int | None, environ: Mapping[str, str]
) -> str:
    """How many ranks a node will have, and why, as far as this node's *environ* tells."""
    at = after_torchrun(command)
    if at is None:
        return "1 process a node: no torchrun in the command"
    if "--nproc-per-node" in own_options(command[at:]):
        return "ranks a node as torchrun is told"
    count = asked or ranks_here(environ)
    if asked:
        why = "as --nproc-per-node says"
    elif _gpus(environ):
        why = "one for each GPU"
    else:
        why = "Slurm gave no GPUs"
    return f"{count} rank{'s' if count > 1 else ''} a node: {why}"


def ranks_here(environ: Mapping[str, str]) -> int:
    """
    GPUs that Slurm gave this step on this node; 1, as torchrun itself has it, where it gave none.

    GPUs that are merely there are not counted: they may be another job's.
    """
    return max(1, _gpus(environ))


def _gpus(environ: Mapping[str, str]) -> int:
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([word for word in visible.split(",") if word.strip()])
    given = environ.get("SLURM_GPUS_ON_NODE", "")
    return int(given) if given.isdecimal() else 0
