"""Rules over processes, load, the clock, and what has to run. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import NodeFacts, ServiceFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings

BITS_A_MEGABYTE = 8 / 1e6


def process_stuck(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """
    Stuck in the driver is a fault; a GPU's user that waits for something else is a hint.

    Everybody is in D state now and then: only who has not run once since is stuck.
    """
    for process in facts.processes.stuck if facts.processes else ():
        trend = facts.trend(f"pid{process.pid}", "switches")
        seconds = trend.unchanged_s if trend else 0.0
        if seconds < settings.thresholds.stuck_s:
            continue
        severity = Severity.DRAIN_WHEN_IDLE if process.in_driver else Severity.WARN
        what = "dead and not reaped" if process.state == "Z" else "in D state"
        where = ", in the NVIDIA driver" if process.in_driver else ""
        detail = f"{process.name} {what} for {seconds:.0f} s{where}"
        yield Finding("process-stuck", severity, f"pid{process.pid}", detail)


def node_limit(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """What starts or opens one more fails then, in ways that look like anything."""
    if facts.processes is None:
        return
    counts = {
        "threads": (facts.processes.threads, facts.processes.threads_max),
        "open-files": (facts.processes.files, facts.processes.files_max),
    }
    for name, (used, limit) in counts.items():
        if not (used and limit):
            continue
        if 100 * used >= settings.thresholds.limit_warn_percent * limit:
            yield Finding("node-limit", Severity.WARN, name, f"{used} of at most {limit}")


def foreign_load(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A neighbour, an attack, or what a job left behind: somebody should look."""
    idle_s = idle_for_s(facts)
    if facts.load is None or idle_s < settings.thresholds.idle_s:
        return
    percent = 100 * facts.load.load / facts.load.cpus
    if percent >= settings.thresholds.idle_load_percent:
        detail = (
            f"load {facts.load.load:.1f} on {facts.load.cpus} processors, and no job for"
            f" {idle_s:.0f} s"
        )
        yield Finding("foreign-load", Severity.WARN, "node", detail)


def foreign_traffic(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """It takes the next job's bandwidth. RDMA does not pass here."""
    idle_s = idle_for_s(facts)
    trend = facts.trend("node", "network_bytes")
    if trend is None or idle_s < settings.thresholds.idle_s:
        return
    # Not a reading further back: that one still counts what the last job moved.
    mean = trend.per_second(min(idle_s - 1, 2 * settings.thresholds.idle_s))
    mbps = (mean or 0.0) * BITS_A_MEGABYTE
    if mbps >= settings.thresholds.idle_network_mbps:
        detail = f"{mbps:.0f} Mbit/s, and no job for {idle_s:.0f} s"
        yield Finding("foreign-traffic", Severity.WARN, "node", detail)


def idle_for_s(facts: NodeFacts) -> float:
    """Seconds for which no health check saw a job's step; 0 where nobody would start one."""
    trend = facts.trend("node", "steps")
    if facts.processes is None or not facts.processes.slurmd or facts.processes.steps:
        return 0.0
    return trend.unchanged_s if trend else 0.0


def clock_unsynchronised(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """Nothing is wrong yet: it drifts by some seconds a day."""
    if facts.clock and not facts.clock.synchronised:
        detail = "nobody steers the kernel's clock"
        yield Finding("clock-unsynchronised", Severity.WARN, "node", detail)


def clock_offset(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Whoever steers the clock says how far it is off, or may be."""
    if facts.clock is None:
        return
    off = max(abs(facts.clock.offset_s or 0.0), facts.clock.error_s or 0.0)
    if off >= settings.thresholds.clock_offset_s:
        yield Finding("clock-offset", Severity.WARN, "node", f"off by {off:.3f} s")


def service_down(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Whoever names a service needs it. On its way up it is given time."""
    for service in facts.services:
        if service.name not in settings.expect.services or service.active in {
            "active", "reloading", "refreshing",
        }:  # fmt: skip
            continue
        rising = service.active == "activating" and service.sub != "auto-restart"
        severity = Severity.WARN if rising else Severity.DRAIN_WHEN_IDLE
        yield Finding("service-down", severity, service.name, _standing(service))


def _standing(service: ServiceFacts) -> str:
    if service.load == "not-found":
        return "is not installed"
    if service.load == "masked":
        return "is masked: systemd will not start it"
    return f"is {service.active} ({service.sub})" if service.sub else f"is {service.active}"


def module_missing(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Whoever names a module needs it."""
    for name in settings.expect.modules:
        if facts.modules.get(name) is False:
            detail = "is not loaded"
            yield Finding("module-missing", Severity.DRAIN_WHEN_IDLE, name, detail)


def library_broken(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """An empty file is there for every check that asks only whether it exists."""
    for library in facts.libraries:
        if library.empty:
            detail = "its file is empty: no CUDA program can start"
            yield Finding("library-broken", Severity.DRAIN_WHEN_IDLE, library.name, detail)
        elif library.error:
            yield Finding("library-broken", Severity.WARN, library.name, library.error)


HOST_RULES: tuple[Rule, ...] = (
    process_stuck, node_limit, foreign_load, foreign_traffic, clock_unsynchronised, clock_offset,
    service_down, module_missing, library_broken,
)  # fmt: skip
