"""What ranks find out about their directory where its disk fails, or is another to one of them."""

import errno
import os
import sys
from pathlib import Path

import torch.distributed

from slurm_resilience.checkpoint_files.keep import PROBE
from slurm_resilience.errors import CheckpointError
from slurm_resilience.training.nodes import made
from slurm_resilience.training.peers import Peers


def probe_stays(directory: Path, per_node: bool) -> str:  # noqa: FBT001 - called by position
    """What is said where one rank's disk fails when a probe is to be deleted."""
    failing = int(per_node)  # the rank that deletes, or one of two that do

    def fail(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.remove" and PROBE in str(arguments[0]) and rank == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO), arguments[0])

    rank = torch.distributed.get_rank()
    sys.addaudithook(fail)
    return said(directory, per_node=per_node)


def sees_another(directory: Path) -> str:
    """What is said where rank 0 finds the probe of rank 1, which does not find that of rank 0."""
    own = directory.with_name(f"of-{torch.distributed.get_rank()}")

    def add(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.listdir" and str(arguments[0]) == str(own) and own.name == "of-0":
            for probe in own.glob(f"{PROBE}*-0"):
                probe.with_name(f"{probe.name.removesuffix('0')}1").touch()

    sys.addaudithook(add)
    return said(own, per_node=True)


def said(directory: Path, *, per_node: bool) -> str:
    """The error, or the groups."""
    try:
        nodes = made(directory, Peers(timeout_s=30), per_node=per_node)
    except CheckpointError as error:
        return f"{type(error).__name__}: {error}"
    return str(nodes.groups)
