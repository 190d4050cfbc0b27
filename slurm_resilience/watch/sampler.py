"""
Reads this node's hardware for the agent: `python -m slurm_resilience.watch.sampler`.

A line on standard input; on standard output an empty line when it goes to ask the driver, and a
line of JSON with all that it read. A process of its own, because a
driver that hangs puts its caller into a sleep that nothing ends; then the agent goes on without.
"""

import signal
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from slurm_resilience import config
from slurm_resilience.config import Config
from slurm_resilience.errors import ConfigError
from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Severity
from slurm_resilience.node.kernel_lines import parse_records
from slurm_resilience.node.probes import kernel_log, network, nvml
from slurm_resilience.node.rules.kernel import KERNEL_RULES
from slurm_resilience.watch.facts import GpuFacts
from slurm_resilience.watch.hardware import Sample

MOST_EVENTS = 20
"""The first ones tell; a broken GPU repeats itself."""


def main() -> None:
    """Answer until the agent is gone."""
    # Where Slurm signals every process of a step, this one must outlive the ranks' last save.
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(signum, signal.SIG_IGN)
    unread: dict[str, str] = {}
    try:
        settings = config.load()
    except ConfigError as error:
        settings, unread = Config(), {"configuration": str(error)}
    log = KernelLog(settings)
    for _ in sys.stdin.buffer:
        _say(msgspec.json.encode(_sample(settings, log, unread)))


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _sample(settings: Config, log: "KernelLog", unread: Mapping[str, str]) -> Sample:
    missed = dict(unread)
    try:
        events = log.faults()
    except OSError as trouble:
        events = ()
        missed["kernel log"] = trouble.strerror or str(trouble)
    links = network.read(settings.paths.sysfs, [], everything=True)
    _say(b"")
    found = nvml.read(live=True)
    error = found.get("nvml_error")
    if error and error != "LibraryNotFound":  # a node without GPUs has no NVML
        missed["gpus"] = str(error)
    return Sample(
        gpus=None if error else tuple(_gpu(each) for each in found["gpus"]),
        links={link["name"]: link["state"] for link in links if link.get("state")},
        events=events,
        unread=missed,
    )


class KernelLog:
    """Faulty hardware that the kernel speaks of from now on."""

    def __init__(self, settings: Config) -> None:
        self._settings = settings
        self._first: int | None = None

    def faults(self) -> tuple[str, ...]:
        """One line a fault since the first call, none of them an application's own."""
        records = kernel_log.read(self._settings.paths.kmsg)
        if self._first is None:
            self._first = max((record[0] for record in records), default=-1)
        events = parse_records(record for record in records if record[0] > self._first)
        facts = NodeFacts("", kernel_events=events)
        findings = [
            found for rule in KERNEL_RULES for found in rule(facts, self._settings.node)
        ]
        faults = [found.detail for found in findings if found.severity >= Severity.WARN]
        return tuple(faults[:MOST_EVENTS])


def _gpu(read: Mapping[str, Any]) -> GpuFacts:
    percent = read.get("utilization_percent")
    return GpuFacts(
        index=read["index"],
        uuid=read.get("uuid") or "",
        lost=bool(read.get("lost") or read.get("reset_required")),
        ecc_uncorrected=read.get("ecc_uncorrected"),
        utilisation=None if percent is None else percent / 100,
        power_w=read.get("power_w"),
    )


if __name__ == "__main__":
    main()
