"""Rules over kernel events. Pure."""

from collections.abc import Callable, Iterator

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.kernel_lines import normalised_pci
from slurm_resilience.node.rules.kernel import gpus, host
from slurm_resilience.node.rules.kernel.judgement import Judgement, Seen, seen_in
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

_EVERY: tuple[Callable[[Seen], Iterator[Judgement]], ...] = (
    gpus.xids, gpus.sxids, gpus.lost, gpus.not_started, gpus.hung_tasks, host.adapters,
    host.links, host.pcie, host.memory, host.disks, host.file_systems, host.file_servers,
    host.killed,
)  # fmt: skip


def judgements(facts: NodeFacts, settings: NodeSettings) -> Iterator[Judgement]:
    """Every kernel event that tells of a fault, and how bad it is."""
    seen = seen_in(facts, settings)
    for judge in _EVERY:
        yield from judge(seen)


def xid(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """By NVIDIA's action, unless what else is known of the GPU settles it."""
    return _found(gpus.xids, facts, settings)


def sxid(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """By the word in the line."""
    return _found(gpus.sxids, facts, settings)


def gpu_fell_off_bus(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A GPU that went without an Xid."""
    return _found(gpus.lost, facts, settings)


def gpu_init_failed(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A GPU that the driver cannot start."""
    return _found(gpus.not_started, facts, settings)


def nic_fault(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """What mlx5 says of its adapter."""
    return _found(host.adapters, facts, settings)


def pcie_error(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """What AER says of a device."""
    return _found(host.pcie, facts, settings)


def host_memory_error(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Uncorrected errors of memory and processors."""
    return _found(host.memory, facts, settings)


def disk_error(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """What the kernel says of a disk."""
    return _found(host.disks, facts, settings)


def file_system_error(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A file system that the kernel found damaged."""
    return _found(host.file_systems, facts, settings)


def nfs_silent(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A file server that has not answered since."""
    return _found(host.file_servers, facts, settings)


def hung_task(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A process stuck after a GPU error."""
    for finding in _found(gpus.hung_tasks, facts, settings):
        if finding.severity > Severity.OK:
            yield finding


def driver_hung(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Two witnesses: NVML gives no answer, and the kernel sees processes stuck."""
    stuck = any(event.kind == "hung-task" for event in facts.kernel_events or ())
    if stuck and "nvml" in facts.hung:
        detail = "NVML gives no answer and processes are stuck in the kernel"
        yield Finding("driver-hung", Severity.DRAIN_WHEN_IDLE, "node", detail)


KERNEL_RULES: tuple[Rule, ...] = (
    xid, sxid, gpu_fell_off_bus, gpu_init_failed, nic_fault, pcie_error, host_memory_error,
    disk_error, file_system_error, nfs_silent, hung_task, driver_hung,
)  # fmt: skip


def _found(
    judge: Callable[[Seen], Iterator[Judgement]], facts: NodeFacts, settings: NodeSettings
) -> Iterator[Finding]:
    for judgement in judge(seen_in(facts, settings)):
        yield _finding(facts, judgement)


def _finding(facts: NodeFacts, judged: Judgement) -> Finding:
    event = judged.event
    index = next(
        (
            gpu.index
            for gpu in facts.gpus or ()
            if gpu.pci and event.pci and normalised_pci(gpu.pci) == event.pci
        ),
        None,
    )
    subject = f"gpu{index}" if index is not None else subject_of(judged)
    times = f", {event.count} times" if event.count > 1 else ""
    return Finding(
        judged.check,
        judged.severity,
        subject,
        f"{judged.what} ({judged.why}){times}",
        gpu=index,
        sequence=event.sequence,
    )


def subject_of(judged: Judgement) -> str:
    """What an event speaks of, where its GPU's number is not known."""
    event = judged.event
    return event.pci or event.device or event.process or "node"
