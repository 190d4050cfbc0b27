"""
Which GPUs a hook's job has, as Slurm's environment names them.

SLURM_JOB_GPUS holds the node's own numbers; CUDA_VISIBLE_DEVICES may hold UUIDs, also of MIG
devices. What cannot be understood means all GPUs, never none.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurm_resilience.node.facts import GpuFacts


MOST_GPUS = 1024


class Scope:
    """The GPUs to look at: by number, by UUID, or all."""

    __slots__ = ("everything", "numbers", "uuids")

    def __init__(
        self,
        *,
        everything: bool = False,
        numbers: frozenset[int] = frozenset(),
        uuids: frozenset[str] = frozenset(),
    ) -> None:
        self.everything = everything
        self.numbers = numbers
        self.uuids = uuids

    def __bool__(self) -> bool:
        """Whether there is any GPU in it."""
        return self.everything or bool(self.numbers or self.uuids)

    def holds(self, gpu: GpuFacts) -> bool:
        """
        Whether *gpu* is in it.

        A number is Slurm's, which follows the device files; where the driver counts otherwise
        than they do, a GPU of either number counts.
        """
        return (
            self.everything
            or gpu.index in self.numbers
            or gpu.minor in self.numbers
            or gpu.uuid in self.uuids
        )


NODE = Scope(everything=True)


def scope_of(environment: Mapping[str, str]) -> Scope:
    """The GPUs of the job that a prolog or epilog runs for."""
    text = environment.get("SLURM_JOB_GPUS") or environment.get("CUDA_VISIBLE_DEVICES") or ""
    numbers: set[int] = set()
    uuids: set[str] = set()
    for word in text.split(","):
        name = word.strip()
        first, _, last = name.partition("-")
        if name in {"", "NoDevFiles"}:
            continue
        if name.startswith("GPU-"):
            uuids.add(name)
        elif name.startswith("MIG-GPU-"):
            uuids.add(name.removeprefix("MIG-").partition("/")[0])
        elif name.isdecimal():
            numbers.add(int(name))
        elif first.isdecimal() and last.isdecimal() and int(last) < MOST_GPUS:
            numbers |= set(range(int(first), int(last) + 1))
        else:
            return NODE
    return Scope(numbers=frozenset(numbers), uuids=frozenset(uuids))
