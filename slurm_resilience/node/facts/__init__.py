"""
What was read on a node: frozen values, to and from JSON; no judgement.

None is always "could not be read", never zero; why it could not stands in `unread`. What a card
does not have is there as well, as `NOT_SUPPORTED`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from slurm_resilience.node.facts.dcgm import DcgmFacts
from slurm_resilience.node.facts.gpu import (
    NOT_SUPPORTED,
    RESET_REQUIRED,
    GpuFacts,
    GpuProcess,
)
from slurm_resilience.node.facts.host import (
    ClockFacts,
    DimmFacts,
    DiskFacts,
    DriveFacts,
    LibraryFacts,
    LoadFacts,
    MemoryFacts,
    ProcessFacts,
    RaidFacts,
    ServiceFacts,
    StuckProcess,
)
from slurm_resilience.node.facts.network import (
    LinkCounters,
    LinkFacts,
    OpticsFacts,
)
from slurm_resilience.node.facts.pcie import PcieFacts
from slurm_resilience.node.facts.power import SensorFacts, UpsFacts
from slurm_resilience.node.facts.trends import Trend
from slurm_resilience.node.kernel_lines import KernelEvent, normalised_pci, parse_records

__all__ = [
    "NOT_SUPPORTED",
    "RESET_REQUIRED",
    "ClockFacts",
    "DcgmFacts",
    "DimmFacts",
    "DiskFacts",
    "DriveFacts",
    "GpuFacts",
    "GpuProcess",
    "LibraryFacts",
    "LinkCounters",
    "LinkFacts",
    "LoadFacts",
    "MemoryFacts",
    "NodeFacts",
    "OpticsFacts",
    "PcieFacts",
    "ProcessFacts",
    "RaidFacts",
    "SensorFacts",
    "ServiceFacts",
    "StuckProcess",
    "Trend",
    "UpsFacts",
    "assemble",
    "from_json",
    "to_json",
]


class NodeFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One node at one moment."""

    node: str
    boot_id: str = ""
    at: float = 0.0
    """Unix seconds."""
    up_s: float = 0.0
    """Seconds since boot."""
    driver_version: str | None = None
    nvml_error: str | None = None
    """What NVML answered to its initialisation where that failed, for example DriverNotLoaded."""
    gpus: tuple[GpuFacts, ...] | None = None
    gone: tuple[GpuFacts, ...] = ()
    """GPUs that NVML lists no more, though it did earlier in this boot: only their names."""
    kernel_events: tuple[KernelEvent, ...] | None = None
    """Since boot, oldest first, as far as the kernel's ring buffer reaches back."""
    links: tuple[LinkFacts, ...] | None = None
    link_counters: tuple[LinkCounters, ...] = ()
    optics: tuple[OpticsFacts, ...] = ()
    """Modules of cables and transceivers that tell of themselves."""
    pcie: tuple[PcieFacts, ...] = ()
    disks: tuple[DiskFacts, ...] = ()
    shm: DiskFacts | None = None
    """The file system at /dev/shm."""
    memory: MemoryFacts | None = None
    processes: ProcessFacts | None = None
    load: LoadFacts | None = None
    clock: ClockFacts | None = None
    services: tuple[ServiceFacts, ...] = ()
    """Those that are expected."""
    modules: Mapping[str, bool] = {}
    """Expected kernel modules: whether each is loaded."""
    libraries: tuple[LibraryFacts, ...] = ()
    drives: tuple[DriveFacts, ...] | None = None
    raids: tuple[RaidFacts, ...] = ()
    sensors: tuple[SensorFacts, ...] = ()
    """Power supplies and fans, as far as anything tells of them."""
    upses: tuple[UpsFacts, ...] = ()
    dcgm: tuple[DcgmFacts, ...] = ()
    """What DCGM found wrong, where it is asked."""
    trends: tuple[Trend, ...] = ()
    """How counters went since boot, as far as earlier health checks kept it."""
    unread: Mapping[str, str] = {}
    """Probe -> why it gave no facts."""
    hung: tuple[str, ...] = ()
    """Probes that gave no answer in their time."""

    @property
    def silent(self) -> frozenset[str]:
        """Kinds of probes that gave no answer, one of a kind at least: `disk` for `disk:/tmp`."""
        return frozenset(name.partition(":")[0] for name in (*self.unread, *self.hung))

    def gpu_at(self, pci: str | None) -> GpuFacts | None:
        """The GPU with that address (normalised); None where no GPU that tells its own has it."""
        if pci is None:
            return None
        return next((gpu for gpu in self.gpus or () if gpu.pci == pci), None)

    def trend(self, subject: str, counter: str) -> Trend | None:
        """How one value went; None where no health check has read it yet."""
        return next(
            (one for one in self.trends if (one.subject, one.counter) == (subject, counter)),
            None,
        )


_SAME = (
    "shm", "memory", "processes", "load", "clock", "services", "modules", "libraries", "drives",
    "optics", "pcie",
)  # fmt: skip
_ONE = {
    **dict(zip(_SAME, _SAME, strict=True)),
    "network": "links",
    "counters": "link_counters",
    "raid": "raids",
}
"""Probe -> the field that its answer fills."""
_SEVERAL = {"sensors": ("hwmon", "ipmi"), "dcgm": ("dcgm:health", "dcgm:diag")}
"""Field -> the probes that add to it."""


def assemble(
    identity: Mapping[str, Any],
    answers: Mapping[str, Any],
    unread: Mapping[str, str],
    hung: tuple[str, ...],
) -> NodeFacts:
    """
    Facts from what the probes answered, by probe name (a disk's is `disk:<path>`).

    *identity*: node, boot_id, at. An answer that is not what the facts hold counts as unread: one
    driver's or tool's odd word must not cost all that the others read.
    """
    fields: dict[str, Any] = {**identity, "unread": dict(unread), "hung": hung}
    fields |= answers.get("nvml", {})
    for gpu in fields.get("gpus", ()):
        if "pci" in gpu:
            gpu["pci"] = normalised_pci(gpu["pci"])
    if "kernel_log" in answers:
        fields["kernel_events"] = parse_records(answers["kernel_log"])
    fields |= {field: answers[probe] for probe, field in _ONE.items() if probe in answers}
    for field, kind in (("disks", "disk:"), ("upses", "ups:")):
        fields[field] = [answer for name, answer in answers.items() if name.startswith(kind)]
    for field, probes in _SEVERAL.items():
        fields[field] = [one for probe in probes for one in answers.get(probe) or ()]
    found: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            found[name] = msgspec.convert(value, _TYPES[name])
        except msgspec.ValidationError as error:  # noqa: PERF203 - two dozen fields
            fields["unread"][name] = f"an answer that makes no sense: {error}"
    return NodeFacts(**{**found, "unread": fields["unread"]})


_TYPES = {field.name: field.type for field in msgspec.structs.fields(NodeFacts)}


def to_json(facts: NodeFacts) -> bytes:
    """One document for people and `from_json`."""
    return msgspec.json.format(msgspec.json.encode(facts)) + b"\n"


def from_json(text: bytes) -> NodeFacts:
    """Recorded facts; raises `msgspec.MsgspecError` for anything else."""
    return msgspec.json.decode(text, type=NodeFacts)
