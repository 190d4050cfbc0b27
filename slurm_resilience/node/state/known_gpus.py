"""
The names of this node's GPUs, kept from earlier in the same boot.

A GPU that is lost tells neither its UUID nor its PCI address any more. Who has to find it, Slurm's
numbers and the kernel's messages all speak of it by one of its names.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from slurm_resilience.node.facts import GpuFacts, NodeFacts
from slurm_resilience.node.state import kept
from slurm_resilience.node.state.decoded import decoded

_FILE = "known-gpus"


class KnownGpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a GPU once told of itself."""

    index: int
    pci: str
    """Normalised, as in `GpuFacts`."""
    uuid: str | None = None
    minor: int | None = None
    serial: str | None = None
    nvlinks: int | None = None
    """Most NVLinks that were up at once."""


def recognised(facts: NodeFacts, known: Iterable[KnownGpu]) -> NodeFacts:
    """
    The facts, with the names that lost GPUs had earlier, and with those that are gone.

    Pure. A GPU without an address is the one that had its index, unless that one still answers.
    """
    if facts.gpus is None:
        return facts
    by_pci = {one.pci: one for one in known}
    here = {gpu.pci for gpu in facts.gpus}
    by_index = {one.index: one for one in by_pci.values() if one.pci not in here}
    gpus = tuple(
        _named(gpu, by_pci.get(gpu.pci) if gpu.pci else by_index.get(gpu.index))
        for gpu in facts.gpus
    )
    here = {gpu.pci for gpu in gpus}
    gone = tuple(
        GpuFacts(one.index, uuid=one.uuid, pci=one.pci, minor=one.minor, serial=one.serial)
        for one in by_pci.values()
        if one.pci not in here
    )
    return msgspec.structs.replace(facts, gpus=gpus, gone=gone)


def learnt(facts: NodeFacts, known: Iterable[KnownGpu]) -> tuple[KnownGpu, ...]:
    """What is known after these facts. Pure."""
    by_pci = {one.pci: one for one in known}
    for gpu in facts.gpus or ():
        if gpu.pci is None:
            continue
        before = _itself(gpu, by_pci.get(gpu.pci))
        seen = [count for count in (gpu.nvlinks_up, before and before.nvlinks) if count]
        by_pci[gpu.pci] = KnownGpu(
            gpu.index, gpu.pci, gpu.uuid,
            minor=gpu.minor if gpu.minor is not None or not before else before.minor,
            serial=gpu.serial or (before.serial if before else None),
            nvlinks=max(seen, default=None),
        )  # fmt: skip
    return tuple(by_pci.values())


def load(plan: dict[str, Any], boot: str) -> tuple[KnownGpu, ...]:
    """What earlier hooks of this *boot* learnt; nothing where there is none to believe."""
    return decoded(kept.of_boot(f"{plan['state']}/{_FILE}", boot), tuple[KnownGpu, ...]) or ()


def save(plan: dict[str, Any], boot: str, known: tuple[KnownGpu, ...]) -> str:
    """Leave it for the next hook; why that could not be done, empty where it was."""
    return kept.write_of_boot(f"{plan['state']}/{_FILE}", boot, msgspec.json.encode(known))


def _itself(gpu: GpuFacts, known: KnownGpu | None) -> KnownGpu | None:
    """What is known of *gpu*, unless another one has been put in its place."""
    return None if known and gpu.uuid and gpu.uuid != known.uuid else known


def _named(gpu: GpuFacts, known: KnownGpu | None) -> GpuFacts:
    known = _itself(gpu, known)
    return msgspec.structs.replace(gpu, **dict(_missing(gpu, known))) if known else gpu


def _missing(gpu: GpuFacts, known: KnownGpu) -> Iterator[tuple[str, object]]:
    for field in ("uuid", "pci", "minor", "serial"):
        value = getattr(known, field)
        if getattr(gpu, field) is None and value is not None:
            yield field, value
    if known.nvlinks is not None:
        yield "nvlinks_seen", known.nvlinks
