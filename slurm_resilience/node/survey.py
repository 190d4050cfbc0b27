"""Look at this node now: all probes of a profile, each in its child, into facts."""

import time
from typing import Any

import msgspec

from slurm_resilience.node import probing, trending
from slurm_resilience.node.facts import NodeFacts, assemble
from slurm_resilience.node.plan import here, nvml_arguments, probes_for
from slurm_resilience.node.probes import nvml
from slurm_resilience.node.probing import Answers
from slurm_resilience.node.state import kept, known_gpus, recall

WHOLE = ("health", "full")
"""The profiles that ask all probes, and so may follow how counters go."""


def read_facts(plan: dict[str, Any], profile: str) -> NodeFacts:
    """The facts of *profile* (see `plan.PROFILES`), after at most its probes' time."""
    deadline = time.monotonic() + min(plan["probe_s"][profile], plan["budget_s"][profile])
    probes = {"nvml": (nvml.read, nvml_arguments(profile)), **probes_for(plan, profile)}
    children = {
        name: probing.start(probe, deadline=deadline, **arguments)
        for name, (probe, arguments) in probes.items()
    }
    boot = kept.boot_id(plan["proc"])
    return facts_of(plan, profile, here(), boot, probing.gather(children))


def facts_of(
    plan: dict[str, Any], profile: str, node: str, boot: str, answers: Answers
) -> NodeFacts:
    """
    What the probes answered, with what earlier hooks of this *boot* kept.

    That is the names of GPUs that are lost by now and, of a whole look, how counters went.
    """
    now = {"at": time.time(), "up_s": time.clock_gettime(time.CLOCK_BOOTTIME)}
    facts = assemble({"node": node, "boot_id": boot, **now}, *answers.read(), answers.hung)
    facts = known_gpus.recognised(facts, known_gpus.load(plan, boot))
    if profile not in WHOLE:
        return facts
    trends = trending.follow(recall.trends(plan, boot), facts, facts.up_s)
    return msgspec.structs.replace(facts, trends=trends)
