"""
Which GPUs a hook's job has, as Slurm's environment names them.

SLURM_JOB_GPUS holds the numbers of the device files, /dev/nvidia<N>, or UUIDs; CUDA_VISIBLE_DEVICES
either, and where GPUs are cut up the names of MIG devices, which Slurm counts on their own. What
cannot be understood means all GPUs to look at, never none, and none to clean up.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from slurm_resilience.node.facts import GpuFacts


MOST_GPUS = 1024


class Scope:
    """The GPUs to look at, by the names that the environment has for them, or all."""

    __slots__ = ("everything", "names", "numbers")

    def __init__(
        self,
        *,
        everything: bool = False,
        numbers: frozenset[int] = frozenset(),
        names: frozenset[str] = frozenset(),
    ) -> None:
        self.everything = everything
        self.numbers = numbers
        """Of device files."""
        self.names = names
        """UUIDs of GPUs and of MIG devices, or the beginnings of such, in small letters."""

    def __bool__(self) -> bool:
        """Whether there is any GPU in it."""
        return self.everything or bool(self.numbers or self.names)

    def among(self, gpus: Iterable[GpuFacts]) -> tuple[frozenset[int], bool]:
        """
        The NVML indices of those of *gpus* that are in it, and whether that is certain.

        It is not where something names none of them, or more than one: then all are.
        """
        there = tuple(gpus)
        found: set[int] = set()
        for matches in () if self.everything else self._matches(there):
            if len(matches) != 1:
                break
            found |= matches
        else:
            if not self.everything:
                return frozenset(found), True
        return frozenset(gpu.index for gpu in there), False

    def _matches(self, gpus: tuple[GpuFacts, ...]) -> Iterator[set[int]]:
        """For each name the indices of the GPUs that it may mean."""
        # Where a GPU is cut up, Slurm numbers its parts, and by no rule that could be read here.
        cut_up = any(gpu.mig for gpu in gpus)
        for number in self.numbers:
            yield set() if cut_up else _numbered(gpus, number)
        for name in self.names:
            yield {gpu.index for gpu in gpus if _bears(gpu, name)}


NODE = Scope(everything=True)


def scope_of(environment: Mapping[str, str]) -> Scope:
    """The GPUs of the job that a prolog or epilog runs for."""
    slurms, cudas = environment.get("SLURM_JOB_GPUS"), environment.get("CUDA_VISIBLE_DEVICES")
    # Slurm's numbers count MIG devices; CUDA's names say which.
    return _parsed((cudas if cudas and "MIG-" in cudas else slurms or cudas) or "")


def _parsed(text: str) -> Scope:
    numbers: set[int] = set()
    names: set[str] = set()
    for word in text.split(","):
        # A shared GPU has replicas, GPU-…::0: they are one.
        name = word.strip().partition("::")[0]
        first, dash, last = name.partition("-")
        if name in {"", "NoDevFiles"}:
            continue
        if name.startswith("MIG-GPU-"):  # until driver 470: its GPU, its instances' numbers
            names.add(name.removeprefix("MIG-").partition("/")[0].lower())
        elif name.startswith(("GPU-", "MIG-")):
            names.add(name.lower())
        elif first.isdecimal() and (last.isdecimal() or not dash):
            low, high = int(first), int(last if dash else first)
            if not low <= high < MOST_GPUS:
                return NODE
            numbers |= set(range(low, high + 1))
        else:
            return NODE
    return Scope(numbers=frozenset(numbers), names=frozenset(names))


def _numbered(gpus: tuple[GpuFacts, ...], number: int) -> set[int]:
    """By device file; by NVML's own count only a GPU whose device file is not known."""
    return {gpu.index for gpu in gpus if gpu.minor == number} or {
        gpu.index for gpu in gpus if gpu.minor is None and gpu.index == number
    }


def _bears(gpu: GpuFacts, name: str) -> bool:
    own = (gpu.uuid or "", *gpu.mig_devices)
    return any(uuid.lower().startswith(name) for uuid in own)
