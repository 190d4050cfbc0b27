"""How bad one kernel event is, and why: what rules find, and what `decode` tells."""

import msgspec

from slurm_resilience.node.checks.check import Heals
from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Severity
from slurm_resilience.node.kernel_lines import KernelEvent
from slurm_resilience.node.kernel_lines.reading import is_recovery
from slurm_resilience.node.settings import NodeSettings


class Judgement(msgspec.Struct, frozen=True):
    """One event and what it means."""

    check: str
    """The check that it is a finding of."""
    event: KernelEvent
    severity: Severity
    what: str
    """The fault, in a few words."""
    why: str
    """Why it is as bad as that, or what helps."""
    heals: Heals | None = None
    """What makes it go, where *why* says nothing else."""


class Seen(msgspec.Struct, frozen=True):
    """All that an event is judged by."""

    facts: NodeFacts
    settings: NodeSettings
    events: tuple[KernelEvent, ...]
    loaded: int
    """Record number of the last driver load; -1 for none."""
    resets: dict[str, int]
    """PCI address of a GPU -> record number of its last reset."""

    def settled_by(self, event: KernelEvent) -> str:
        """What came after *event* and made it history; empty where nothing did."""
        if event.sequence < self.loaded:
            return "the driver was loaded again after it"
        if event.pci and event.sequence < self.resets.get(event.pci, -1):
            return "the GPU was reset after it"
        return ""

    def standing(self, kind: str) -> tuple[KernelEvent, ...]:
        """The events of one kind that nothing has settled."""
        return tuple(
            event for event in self.events if event.kind == kind and not self.settled_by(event)
        )

    def was_after(self, event: KernelEvent, what: str) -> bool:
        """Whether a message of that sort, of the same device, came after *event*."""
        return any(
            (other.kind, other.device, other.what) == (event.kind, event.device, what)
            and other.sequence > event.sequence
            for other in self.events
        )

    def pending(self, pci: str | None) -> bool | None:
        """Whether NVML says that a row or page of that GPU waits for a reset."""
        gpu = self.facts.gpu_at(pci)
        if gpu is None:
            return None
        return gpu.retired_pending if gpu.remap_pending is None else gpu.remap_pending

    def uncorrected(self, pci: str | None) -> int | None:
        """How many uncorrected errors NVML has counted on that GPU since its last reset."""
        gpu = self.facts.gpu_at(pci)
        return gpu.ecc_uncorrected if gpu else None


def seen_in(facts: NodeFacts, settings: NodeSettings) -> Seen:
    """What the kernel events of *facts* are judged by."""
    events = facts.kernel_events or ()
    places = {gpu.uuid: gpu.pci for gpu in facts.gpus or () if gpu.pci}
    resets: dict[str, int] = {}
    loaded = -1
    for event in events:
        if event.kind == "driver-loaded":
            loaded = max(loaded, event.sequence)
        elif event.kind == "gpu-reset" or is_recovery(event):
            pci = event.pci or places.get(event.uuid)
            if pci:
                resets[pci] = max(resets.get(pci, -1), event.sequence)
    return Seen(facts, settings, events, loaded, resets)
