"""Facts of a cluster's set-up -> advice. Pure. One rule, one matter."""

import re
from collections.abc import Callable, Iterator

from slurm_resilience.doctor.facts import ClusterFacts, PlaceFacts, ProgramFacts
from slurm_resilience.doctor.findings import Advice

Rule = Callable[[ClusterFacts], Iterator[Advice]]

HOOKS = {"Prolog": "prolog", "Epilog": "epilog", "HealthCheckProgram": "health"}
FIRST = (22, 5)
"""The first Slurm that is known to work."""
SHIM_S = 16
"""When a shim has ended its hook and itself, at the latest."""
EMERGENCY_S = 30
"""What a rank gets for a last save when Slurm ends its job: Slurm's own default."""
LATE_S = 600
"""Found dead later than this, a node keeps its job waiting longer than a restart takes."""
BRISK_S = 60
_UNLIMITED = 65534
"""How Slurm before 25.05 prints no limit."""
_NUMBER = re.compile(r"\d+")
_VERSION = re.compile(r"(\d+)\.(\d+)")


def judge(facts: ClusterFacts) -> tuple[Advice, ...]:
    """Everything there is to say, gravest first."""
    order = ["must", "should", "unseen", "ok"]
    found = [advice for rule in RULES for advice in rule(facts)]
    return tuple(sorted(found, key=lambda advice: order.index(advice.level)))


def versions(facts: ClusterFacts) -> Iterator[Advice]:
    """Slurm itself, its commands here, and the package behind each hook."""
    told = facts.settings.get("SLURM_VERSION", "")
    found = _VERSION.match(told)
    running = (int(found[1]), int(found[2])) if found else None
    if running and running < FIRST:
        yield Advice("must", "SLURM_VERSION", f"{told}: works from 22.05 on")
    elif running and running != facts.commands:
        here = f"{facts.commands[0]}.{facts.commands[1]:02d}"
        yield Advice("should", "SLURM_VERSION", f"{told}, but the commands here are {here}")
    else:
        yield Advice("ok", "SLURM_VERSION", told)
    for program in facts.programs:
        if program.version and program.version != facts.package:
            what = f"runs version {program.version}, this is {facts.package}"
            yield Advice("should", program.path, what, "install one version on every node")


def hooks(facts: ClusterFacts) -> Iterator[Advice]:
    """Each of the three is set, is ours, and can start."""
    for setting, hook in HOOKS.items():
        programs = [one for one in facts.programs if one.setting == setting]
        line = _line_of(facts, setting, hook)
        if not programs:
            yield Advice("must", setting, f"not set: no {hook} hook runs", line)
        elif all(one.found for one in programs) and not any(one.hook for one in programs):
            what = "not ours; that is well only where it runs ours in turn"
            yield Advice("should", setting, f"{programs[0].path}: {what}", line)
        for program in programs:
            yield from _program(program, hook, line)


def _program(program: ProgramFacts, hook: str, line: str) -> Iterator[Advice]:
    subject = f"{program.setting}={program.path}"
    if not program.found:
        yield Advice("unseen", subject, "not on this machine; run doctor on a compute node")
        return
    if program.hook and program.hook != hook:
        yield Advice("must", subject, f"is the {program.hook} hook in the end", line)
    if not program.executable:
        yield Advice("must", subject, "cannot be run", f"chmod 755 {program.path}")
    for path in program.loose:
        what = f"root runs it, and others than root can change {path}"
        yield Advice("must", subject, what, f"chown root {path}; chmod go-w {path}")
    if program.hook and not program.python:
        yield Advice("must", subject, "the Python that it starts is not there: install again")
    elif program.hook == hook:
        yield Advice("ok", subject, f"the {hook} hook")


def _line_of(facts: ClusterFacts, setting: str, hook: str) -> str:
    folder = "epilog" if hook == "epilog" else "prolog"
    share = facts.share or "<prefix>/share/slurm-resilience"
    return f"{setting}={share}/{folder}/slurm-resilience-{hook}"


def prolog_flags(facts: ClusterFacts) -> Iterator[Advice]:
    """Without Alloc the prolog runs with a job's first step, on the nodes of that step only."""
    flags = _words(facts, "PrologFlags")
    if not flags & {"alloc", "contain"}:
        what = "without Alloc or Contain the prolog runs only with a job's first step"
        yield Advice("must", "PrologFlags", what, "PrologFlags=Alloc,Contain")
    else:
        yield Advice("ok", "PrologFlags", facts.settings["PrologFlags"])


def prolog_timeout(facts: ClusterFacts) -> Iterator[Advice]:
    """Slurm drains a node whose prolog outruns it."""
    for key in ("PrologTimeout", "EpilogTimeout", "PrologEpilogTimeout"):
        limit_s = _number(facts, key)
        if limit_s is not None and 0 < limit_s < SHIM_S:
            what = f"{limit_s} s: a hook may take {SHIM_S}, and Slurm would drain the node"
            yield Advice("must", key, what, f"{key}=60")
            return
        if limit_s is not None and limit_s != _UNLIMITED:
            yield Advice("ok", key, f"{limit_s} s")
            return
    what = "no limit: another prolog that hangs holds its job for ever (ours ends itself)"
    yield Advice("should", "PrologEpilogTimeout", what, "PrologEpilogTimeout=60")


def health_interval(facts: ClusterFacts) -> Iterator[Advice]:
    """Only the health check looks for what takes its time, and gives nodes back."""
    key = "HealthCheckInterval"
    interval_s = _number(facts, key) or 0
    line = f"{key}=300"
    if not interval_s:
        yield Advice("must", key, "0: no health check runs, so no drain is ever lifted", line)
    elif interval_s >= facts.verdict_age_s:
        what = (
            f"{interval_s} s: the prolog believes a health check for {facts.verdict_age_s:g} s"
        )
        yield Advice("should", key, what, line)
    elif interval_s < BRISK_S:
        yield Advice("should", key, f"{interval_s} s: costs jobs more than it finds", line)
    else:
        yield Advice("ok", key, f"{interval_s} s")


def health_states(facts: ClusterFacts) -> Iterator[Advice]:
    """On which nodes: also on drained ones, and not on all at once."""
    key, line = "HealthCheckNodeState", "HealthCheckNodeState=ANY,CYCLE"
    states = _words(facts, key) or {"any"}
    told = facts.settings.get(key, "ANY")
    if not states & {"any", "idle"}:
        what = f"{told}: drained nodes are not looked at, so no drain is ever lifted"
        yield Advice("must", key, what, line)
    elif "any" not in states and not {"idle", "alloc", "mixed"} <= states:
        yield Advice("should", key, f"{told}: busy nodes are not looked at", line)
    elif "cycle" not in states:
        yield Advice("should", key, f"{told}: all nodes look in the same second", line)
    else:
        yield Advice("ok", key, told)


def requeue(facts: ClusterFacts) -> Iterator[Advice]:
    """A job that met a bad node goes back to the queue, and from there to another."""
    key, wanted = "SchedulerParameters", "nohold_on_prolog_fail"
    now = facts.settings.get(key, "")
    if wanted not in _words(facts, key):
        what = (
            f"no {wanted}: a job whose prolog found its node unfit is held until you release it"
        )
        line = f"{key}={','.join(filter(None, [now, wanted]))}"
        yield Advice("must", key, what, line)
    else:
        yield Advice("ok", key, wanted)
    if facts.settings.get("JobRequeue") == "0":
        what = "0: only jobs submitted with --requeue come back"
        yield Advice("should", "JobRequeue", what, "JobRequeue=1")


def time_to_save(facts: ClusterFacts) -> Iterator[Advice]:
    """Between SIGTERM and SIGKILL."""
    wait_s = _number(facts, "KillWait")
    if wait_s is not None and wait_s < EMERGENCY_S:
        what = f"{wait_s} s between SIGTERM and SIGKILL: little time for a last save"
        yield Advice("should", "KillWait", what, f"KillWait={EMERGENCY_S}")
    else:
        yield Advice("ok", "KillWait", f"{wait_s} s")


def dead_nodes(facts: ClusterFacts) -> Iterator[Advice]:
    """A node without power is found by Slurm alone, and comes back by it."""
    key = "SlurmdTimeout"
    limit_s = _number(facts, key) or 0
    if not limit_s:
        what = "0: a dead node is never taken for dead, and its job never requeued"
        yield Advice("must", key, what, f"{key}=300")
    elif limit_s > LATE_S:
        yield Advice("should", key, f"{limit_s} s: a dead node is found late", f"{key}=300")
    else:
        yield Advice("ok", key, f"{limit_s} s")
    if facts.settings.get("ReturnToService", "0") == "0":
        what = "0: a node that was away stays down until you resume it"
        yield Advice("should", "ReturnToService", what, "ReturnToService=1")
    else:
        yield Advice("ok", "ReturnToService", facts.settings["ReturnToService"])


def places(facts: ClusterFacts) -> Iterator[Advice]:
    """Our own configuration and memory are root's alone."""
    if facts.complaint:
        yield Advice("must", "configuration", facts.complaint)
    for place in (facts.configuration, facts.state):
        yield from _place(place)


def switched_off(facts: ClusterFacts) -> Iterator[Advice]:
    """What somebody switched off in the night is forgotten in the morning."""
    for name in facts.off:
        line = f"slurm-resilience node on {name}"
        yield Advice("should", f"off: {name}", "switched off by a file on this machine", line)


def _place(place: PlaceFacts) -> Iterator[Advice]:
    if place.unread:
        yield Advice("unseen", place.path, place.unread)
    for path in place.loose:
        what = f"others than root can change {path}: the hooks do not believe it"
        yield Advice("must", place.path, what, f"chown root {path}; chmod go-w {path}")


RULES: tuple[Rule, ...] = (
    hooks, prolog_flags, prolog_timeout, health_interval, health_states, requeue, dead_nodes,
    time_to_save, versions, places, switched_off,
)  # fmt: skip


def _words(facts: ClusterFacts, key: str) -> set[str]:
    return {word.strip().lower() for word in facts.settings.get(key, "").split(",")} - {""}


def _number(facts: ClusterFacts, key: str) -> int | None:
    """The number that a setting begins with (`30 sec`); None where it has none."""
    found = _NUMBER.match(facts.settings.get(key, ""))
    return int(found[0]) if found else None
