"""Look at this node now: all probes of a profile, each in its child, into facts."""

import os
import time
from typing import Any

import msgspec

from slurm_resilience.node import probing, trending
from slurm_resilience.node.facts import NodeFacts, assemble
from slurm_resilience.node.plan import nvml_arguments, probes_for
from slurm_resilience.node.probes import nvml
from slurm_resilience.node.state import kept, known_gpus, recall


def read_facts(plan: dict[str, Any], profile: str, *, node: str | None = None) -> NodeFacts:
    """
    The facts of *profile* (see `plan.PROFILES`), after at most its probes' time.

    *node*: what Slurm calls this node; its host name otherwise.
    """
    deadline = time.monotonic() + min(plan["probe_s"][profile], plan["budget_s"][profile])
    probes = {"nvml": (nvml.read, nvml_arguments(profile)), **probes_for(plan, profile)}
    children = {
        name: probing.start(probe, deadline=deadline, **arguments)
        for name, (probe, arguments) in probes.items()
    }
    identity = identity_of(kept.boot_id(plan["proc"]), node)
    answers = probing.gather(children)
    facts = assemble(identity, *answers.read(), answers.hung)
    facts = known_gpus.recognised(facts, known_gpus.load(plan, facts.boot_id))
    return with_trends(plan, facts) if profile in {"health", "full"} else facts


def with_trends(plan: dict[str, Any], facts: NodeFacts) -> NodeFacts:
    """The facts, and how their counters went since boot as far as health checks have kept it."""
    earlier = recall.trends(plan, facts.boot_id)
    return msgspec.structs.replace(facts, trends=trending.follow(earlier, facts, up_s()))


def up_s() -> float:
    """Seconds since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def here() -> str:
    """What Slurm calls this node, where it says so; else the host name."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]


def identity_of(boot: str, node: str | None) -> dict[str, Any]:
    """Which node, which boot, when."""
    name = node or os.uname().nodename.partition(".")[0]
    return {"node": name, "boot_id": boot, "at": time.time()}
