"""What the ranks of a test do with the memory of their node, real or as a folder of files tells it."""

import sys
from pathlib import Path

import torch
import torch.distributed

from slurm_resilience.errors import CheckpointError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.training.memory import Memory
from slurm_resilience.training.peers import Failure, Peers
from slurm_resilience.training.staging import Staging
from tests.training.ranks import wait_for

MIB = 1 << 20
ELEMENTS = MIB


def tell_of(root: Path, available_mib: int) -> None:
    """Make *root* tell that so much is left on its node."""
    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc/meminfo").write_text(
        f"MemTotal: 1 kB\nMemAvailable: {available_mib << 10} kB\n"
    )


def ask_in_turn(root: Path, asked_mib: list[tuple[int, list[int]]]) -> list[str]:
    """What this rank hears when so much is left, and the ranks ask for so much, time after time."""
    peers = Peers(timeout_s=30)
    memory = Memory(peers, root=root)
    heard = []
    for available_mib, by_rank in asked_mib:
        peers.first(lambda left=available_mib: tell_of(root, left))  # type: ignore[misc]
        memory.look()
        peers.most(0)
        heard.append(memory.refusal(by_rank[peers.rank] * MIB))
    return heard


def one_asks_alone(root: Path) -> list[str]:
    """What rank 0 hears after the first time, the others not being there to say anything."""
    peers = Peers(timeout_s=30)
    memory = Memory(peers, root=root)
    peers.first(lambda: tell_of(root, 100))
    memory.look()
    heard = [memory.refusal(40 * MIB)]
    if peers.rank == 0:
        tell_of(root, 20)
        memory.look()
        heard += [memory.refusal(lacking) for lacking in (0, 64, 10 * MIB, 11 * MIB)]
    peers.most(0)
    return heard


def one_has_nothing_to_copy(_folder: Path) -> list[str]:
    """What each rank gets where another's state cannot be taken, then where all can."""
    peers = Peers(timeout_s=30)
    staging = Staging(peers)
    said = []
    for failing in (True, False):
        staging.memory.look()
        peers.most(0)

        def take(*, fails: bool = failing and peers.rank == 1) -> list[torch.Tensor]:
            if fails:
                raise CheckpointError("not what was planned for")
            return [torch.ones(1)]

        try:
            block = staging.filled(take)
        except CheckpointError as error:
            said.append(str(error))
        else:
            said.append("failed" if isinstance(block, Failure) else f"{len(block)} bytes")
    return said


def look_late(directory: Path, told: Path) -> bool:
    """
    Save; rank 1 looks for memory once rank 0 has taken of it, unless that waits for it.

    Whether rank 1 had looked when rank 0 took.
    """
    rank = torch.distributed.get_rank()
    looked, took = told / "looked", told / "took"
    in_time = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]) == "/proc/meminfo" and rank == 1:
            if not looked.exists():
                try:
                    wait_for(took.exists, within_s=1.0)
                except AssertionError:
                    looked.touch()
        elif event == "mmap.__new__" and rank == 0 and int(str(arguments[1])) >= ELEMENTS:
            in_time.append(looked.exists())
            took.touch()

    run = Run(checkpoints=Checkpoints(directory), state={"x": torch.zeros(ELEMENTS)})
    run.restore()
    sys.addaudithook(watch)
    run.step(0)
    run.finish()
    return in_time[0] if rank == 0 else looked.exists()
