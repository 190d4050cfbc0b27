"""Rules over kernel events. Pure."""

from collections.abc import Callable, Iterator

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.facts.trends import HOUR_S
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.kernel import gpus, host
from slurm_resilience.node.rules.kernel.judgement import Judgement, Seen, seen_in
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

_EVERY: tuple[Callable[[Seen], Iterator[Judgement]], ...] = (
    gpus.xids, gpus.sxids, gpus.lost, gpus.not_started, gpus.hung_tasks, host.adapters,
    host.links, host.pcie, host.memory, host.disks, host.file_systems, host.file_servers,
    host.killed,
)  # fmt: skip
_ONLY_TOLD = ("link-flapping", "oom-kill")
"""Checks for which the log is no evidence: information, or a port's counters decide."""


def judgements(facts: NodeFacts, settings: NodeSettings) -> Iterator[Judgement]:
    """Every kernel event that tells of a fault, and how bad it is."""
    seen = seen_in(facts, settings)
    for judge in _EVERY:
        yield from judge(seen)


def kernel_log(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """The one rule of many checks: what each event counts for is said in `gpus` and `host`."""
    for judged in judgements(facts, settings):
        is_storage = judged.check == "hung-task" and judged.severity is Severity.OK
        if judged.check not in _ONLY_TOLD and not is_storage:
            yield _finding(facts, judged)


def driver_hung(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Two witnesses: NVML gives no answer, and the kernel sees what uses GPUs stuck, of late."""
    if "nvml" not in facts.hung:
        return
    seen = seen_in(facts, settings)
    if any(facts.up_s - task.at_s < HOUR_S for task in gpus.hung_in_driver(seen)):
        detail = "NVML gives no answer and processes are stuck in the kernel"
        yield Finding("driver-hung", Severity.DRAIN_WHEN_IDLE, "node", detail)


KERNEL_RULES: tuple[Rule, ...] = (kernel_log, driver_hung)


def _finding(facts: NodeFacts, judged: Judgement) -> Finding:
    event = judged.event
    gpu = facts.gpu_at(event.pci)
    index = gpu.index if gpu else None
    subject = f"gpu{index}" if gpu else subject_of(judged)
    times = f", {event.count} times" if event.count > 1 else ""
    # What heals it is said in one word, behind the finding.
    why = "" if judged.heals else f" ({judged.why})"
    return Finding(
        judged.check,
        judged.severity,
        subject,
        f"{judged.what}{why}{times}",
        gpu=index,
        sequence=event.sequence,
        heals=judged.heals,
    )


def subject_of(judged: Judgement) -> str:
    """What an event speaks of, where its GPU's number is not known."""
    event = judged.event
    return event.pci or event.device or event.process or "node"
