"""When a drain of ours may be lifted, and when only a person may. Pure."""

from collections.abc import Iterable, Sequence

from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.findings import Severity, is_unfit
from slurm_resilience.node.kernel_lines import KernelEvent
from slurm_resilience.node.kernel_lines.reading import is_recovery
from slurm_resilience.node.policy.reason import Reason, parse_reason, short, written
from slurm_resilience.node.policy.standing import Situation, Standing
from slurm_resilience.node.policy.strikes import LOOP, Strike, Thing, is_same, times
from slurm_resilience.node.settings import BLIND

CENTRAL = frozenset({"disk", "kernel_log", "network", "nvml"})
"""The probes that a prolog asks too."""

MISSING = frozenset({"gpu-missing", "driver-not-loaded"})
"""
A prolog of a job that was given a GPU looks for one. A health check that was told of no number does not miss
any, so it has to see one before it takes that back.
"""
_NO_GPU = "no GPU is seen yet"
_UNSEEN = "not everything could be looked at"


def missing_for_resume(now: Situation, standing: Standing) -> str:
    """What is still missing before our drain may be lifted; empty for nothing."""
    held = parse_reason(standing.reason)
    thing = now.thing(held.subject) if held else Thing("")
    person = needs_a_person(held, now.strikes, thing)
    if person or held is None:
        return person
    if now.hook != "health":
        return "only the health check gives a node back"
    if not is_cleared(now, standing):
        return _UNSEEN if now.sees_gpu or held.check not in MISSING else _NO_GPU
    restarted = held.boot != short(now.history.boot) or now.restarted
    if CHECKS[held.check].probe == "kernel_log" and not restarted:
        # A kernel message goes from the ring buffer; the fault does not.
        return "neither the node, its driver nor the GPU was restarted since"
    return _not_yet(now)


def is_cleared(now: Situation, standing: Standing | None) -> bool:
    """
    Whether nothing speaks against new work, and what matters for that was seen.

    That is all that a prolog looks at, and whatever found the fault. If it were everything, one
    sensor that can never be read would hold every drained node for ever.
    """
    if is_unfit(now.findings):
        return False
    held = parse_reason(standing.reason) if standing else None
    if held and held.check in MISSING and not now.sees_gpu:
        return False
    check = CHECKS.get(held.check) if held else None
    matters = CENTRAL | {check.probe} if check else CENTRAL
    unknown = [one for one in now.findings if one.severity is Severity.UNKNOWN]
    unseen = {one.subject.partition(":")[0] for one in unknown if one.check in BLIND}
    return not (
        matters & (now.blind | unseen)
        or any(one.check not in BLIND or one.gpu is not None for one in unknown)
        or any(held and written(one.subject) == held.subject for one in unknown)
    )


def is_restarted(events: Iterable[KernelEvent], thing: Thing, *, after: int) -> bool:
    """Whether the driver was loaded, or *thing* itself reset, *after* that kernel record."""
    return any(
        event.kind == "driver-loaded"
        or (
            (event.kind == "gpu-reset" or is_recovery(event))
            and is_same(Thing("", event.uuid or "", event.pci or ""), thing)
        )
        for event in events
        if event.sequence > after
    )


def _not_yet(now: Situation) -> str:
    passes = now.history.clean + 1
    if passes < now.settings.resume_after:
        return f"clean {passes} of {now.settings.resume_after} times"
    return "observing only: would be given back" if now.observe else ""


def needs_a_person(held: Reason | None, strikes: Sequence[Strike], thing: Thing) -> str:
    """Why no health check gives the node back; empty where one may."""
    if held is None or held.check not in CHECKS:
        return "drained for what no check here can clear: only a person gives it back"
    heals = CHECKS[held.check].heals
    if "repair" in {heals, held.advice}:
        return "it needs a repair: only a person gives it back"
    if heals == "itself":
        return ""
    if (count := times(strikes, held.check, thing)) >= LOOP:
        return f"drained for it {count} times: only a person gives it back"
    return ""
