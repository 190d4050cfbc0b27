"""
How often the rules are wrong: `python -m benchmarks.rules [--short] [--seed N]`.

Healthy nodes over a day, judged every five minutes as the health check does, with all that a healthy
node shows from time to time: applications' Xids, corrected errors, a flap, idle clocks, power caps,
values that a board does not have. A drain of one of them is a false one. And every recorded fault of the
tests: one that is not found is missed. One JSON line a figure.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from slurm_resilience.node.facts import (
    NOT_SUPPORTED,
    DiskFacts,
    GpuFacts,
    LinkCounters,
    LinkFacts,
    MemoryFacts,
    NodeFacts,
    PcieFacts,
    from_json,
)
from slurm_resilience.node.findings import Severity, worst
from slurm_resilience.node.kernel_lines import parse_records
from slurm_resilience.node.rules import judge
from slurm_resilience.node.settings import (
    DiskExpectation,
    Expectations,
    LinkExpectation,
    NodeSettings,
)
from slurm_resilience.node.trending import follow
from tests.unit.test_node_rules import FINDINGS, RECORDED
from tests.unit.test_node_rules import SETTINGS as OF_RECORDINGS

GPUS = 8
EVERY_S = 300
A_DAY = 86_400 // EVERY_S
UNFIT = (Severity.DRAIN_WHEN_IDLE.value, Severity.DRAIN.value)

_APPLICATIONS_OWN = (
    "NVRM: Xid (PCI:0000:1b:00): 13, pid=71, name=python, Graphics SM Warp Exception on (GPC 0)",
    "NVRM: Xid (PCI:0000:1b:00): 31, pid=71, name=python, Ch 00000008, MMU Fault: ENGINE GRAPHICS",
    "NVRM: Xid (PCI:0000:1b:00): 43, pid=71, name=python, Ch 00000010",
    "NVRM: Xid (PCI:0000:1b:00): 45, pid=71, name=python, Ch 00000012",
    "NVRM: Xid (PCI:0000:1b:00): 94, pid=71, name=python, Contained: CE User Channel (0x9)",
    "INFO: task kworker/3:1:812 blocked for more than 120 seconds.",
    "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged",
    "nvidia 0000:1b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "mce: [Hardware Error]: Machine check events logged",
    "EDAC MC1: 1 CE memory scrubbing error on CPU_SrcID#1_Ha#0_Chan#0_DIMM#0 (channel:0 slot:0)",
    "nfs: server filer1 not responding, still trying",
    "nfs: server filer1 OK",
    "I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0",
    "I/O error, dev nvme1n1, sector 8 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
    "critical target error, dev nvme0n1, sector 8 op 0x3:(DISCARD) flags 0x800 phys_seg 1",
    "NETDEV WATCHDOG: ens1np0 (mlx5_core): transmit queue 3 timed out",
    "Memory failure: 0xe16677: recovery action for free buddy page: Recovered",
    "BTRFS error (device sdb1): open_ctree failed: -22",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",
)
_MAY_BE_ABSENT = (
    "ecc_corrected", "retired_pending", "recovery_action", "remap_pending", "pcie_replays",
    "serial", "persistence", "mig", "nvlinks",
)  # fmt: skip


@dataclass
class HealthyNode:
    """One node over a day: counters creep, states come and go, nothing is broken."""

    chance: random.Random
    absent: frozenset[str] = frozenset()
    corrected: list[int] = field(default_factory=lambda: [0] * GPUS)
    replays: list[int] = field(default_factory=lambda: [0] * GPUS)
    memory_corrected: int = 0
    flaps: int = 0
    symbol_errors: int = 0
    log: list[tuple[int, int, str]] = field(default_factory=list)

    def readings(self, settings: NodeSettings) -> Iterator[tuple[NodeFacts, NodeSettings]]:
        """The facts of each health check of the day."""
        trends: tuple[object, ...] = ()
        began = self.chance.uniform(60, 1e6)
        for place in range(A_DAY):
            now_s = began + place * EVERY_S
            facts = self._look(now_s)
            trends = follow(trends, facts, now_s)  # type: ignore[arg-type]
            yield msgspec.structs.replace(facts, trends=trends), settings

    def _look(self, now_s: float) -> NodeFacts:
        chance = self.chance
        if _happens(chance, 0.02):
            text = chance.choice(_APPLICATIONS_OWN)
            self.log.append((len(self.log), int(now_s * 1e6), text))
        if _happens(chance, 0.001):
            self.flaps += 1
        if _happens(chance, 0.02):
            self.symbol_errors += chance.randint(1, 3)
        if _happens(chance, 0.01):
            self.memory_corrected += chance.randint(1, 3)
        busy = _happens(chance, 0.8)
        return NodeFacts(
            "n1", boot_id="3f2c6a1e", up_s=now_s, hung=("nvml",) * _happens(chance, 0.002), driver_version="550.54.15",
            gpus=tuple(self._gpu(index, busy=busy) for index in range(GPUS)),
            kernel_events=parse_records(self.log),
            links=tuple(
                LinkFacts(
                    f"mlx5_{port}:1", state="ACTIVE", physical_state="LinkUp",
                    layer="InfiniBand", rate_gbps=400, lanes=4,
                )
                for port in range(GPUS)
            ),
            link_counters=tuple(
                LinkCounters(
                    f"mlx5_{port}:1",
                    {
                        "link_downed": 0 if port else self.flaps,
                        "symbol_error": self.symbol_errors + 7 * port,
                        "port_xmit_discards": 40 * self.symbol_errors,
                        "local_link_integrity_errors": 3 * port,
                    },
                )
                for port in range(GPUS)
            ),
            pcie=tuple(
                PcieFacts(
                    f"0000:{0x1B + index:02x}:00.0", "gpu", "10de:2330", width=16,
                    speed_gts=32.0 if busy else 2.5,
                    corrected=self.replays[index], nonfatal=index % 2, fatal=0,
                )
                for index in range(GPUS)
            ),
            disks=(
                DiskFacts(
                    "/tmp", mounted=True, read_only=False,
                    used_percent=chance.randint(3, 89), inodes_used_percent=chance.randint(1, 60),
                ),
                DiskFacts(
                    "/data", mounted=True, read_only=_happens(chance, 0.01), type="lustre",
                    used_percent=chance.randint(90, 100),
                ),
            ),
            memory=MemoryFacts(
                2_063_000 + chance.randint(0, 900),
                uncorrected=0, corrected=self.memory_corrected,
            ),
        )  # fmt: skip

    def _gpu(self, index: int, *, busy: bool) -> GpuFacts:
        chance = self.chance
        if _happens(chance, 0.05):
            self.corrected[index] += chance.randint(1, 12)
        if _happens(chance, 0.05):
            self.replays[index] += chance.randint(1, 20)
        values: dict[str, object] = {
            "uuid": f"GPU-{index:08d}", "pci": f"0000:{0x1B + index:02x}:00.0", "minor": index,
            "name": "NVIDIA H100 80GB HBM3", "serial": f"165000000000{index}",
            "ecc_enabled": True, "ecc_uncorrected": 0,
            "ecc_uncorrected_aggregate": chance.choice((0, 0, 0, 2)),
            "ecc_corrected": self.corrected[index],
            "remapped_uncorrected": chance.choice((0, 0, 0, 1)), "remap_pending": False,
            "remap_failed": False, "recovery_action": 0,
            "temperature_c": chance.randint(40, 84) if busy else chance.randint(24, 40),
            "power_w": chance.uniform(350, 700) if busy else chance.uniform(60, 120),
            "power_limit_w": 700.0, "utilization_percent": chance.randint(60, 100) * busy,
            "memory_used_mib": chance.randint(40_000, 80_000) if busy else chance.randint(0, 600),
            "memory_total_mib": 81_920,
            # Idle, software power cap, application clocks, sync boost; a brief hardware slowdown.
            "throttle_reasons": chance.choice((0, 4, 4, 2, 0x10) if busy else (1, 1, 0))
            | (8 if _happens(chance, 0.003) else 0),
            "pcie_width": 16, "pcie_width_max": 16,
            "pcie_generation": 5 if busy else chance.randint(1, 5), "pcie_generation_max": 5,
            "pcie_replays": self.replays[index], "nvlinks": (True,) * 18,
            "persistence": True, "mig": False,
        }  # fmt: skip
        for name in self.absent:
            values[name] = None
        return GpuFacts(index, unread=dict.fromkeys(self.absent, NOT_SUPPORTED), **values)  # type: ignore[arg-type]


SETTINGS = NodeSettings(
    expect=Expectations(
        gpus=GPUS,
        links={f"mlx5_{port}:1": LinkExpectation(rate_gbps=400) for port in range(GPUS)},
        disks={"/tmp": DiskExpectation(), "/data": DiskExpectation(mounted=True)},
        memory_mib=2_000_000,
    )
)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a twentieth of the node-days")
    parser.add_argument("--seed", type=int, default=20261201)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    days = 18 if asked.short else 350
    drains = 0
    for day in range(days):
        if sys.stderr.isatty():
            print(f"\r{day} of {days} node-days", end="", file=sys.stderr)
        absent = frozenset(name for name in _MAY_BE_ABSENT if _happens(chance, 0.1))
        for facts, settings in HealthyNode(chance, absent).readings(SETTINGS):
            findings = judge(facts, settings)
            if worst(findings) >= Severity.DRAIN_WHEN_IDLE:
                drains += 1
                print(f"{findings[0]}", file=sys.stderr)
    faults = {
        name: told for name, told in FINDINGS.items() if any(_unfit(line) for line in told)
    }
    missed = [name for name, told in faults.items() if not _finds(name, told)]
    _print("false_drains", drains, f"of {days * A_DAY} healthy readings")
    _print("missed_faults", len(missed), f"of {len(faults)} recorded faults")


def _happens(chance: random.Random, share: float) -> bool:
    return chance.random() < share


def _finds(name: str, told: list[str]) -> bool:
    facts = from_json((RECORDED / f"{name}.json").read_bytes())
    found = {
        f"{one.check} {one.subject}"
        for one in judge(facts, OF_RECORDINGS)
        if _is_unfit(one.severity)
    }
    return {line.split(maxsplit=1)[1] for line in told if _unfit(line)} <= found


def _unfit(line: str) -> bool:
    return line.split(maxsplit=1)[0] in UNFIT


def _is_unfit(severity: Severity) -> bool:
    return severity.value in UNFIT


def _print(figure: str, value: int, against: str) -> None:
    line = {
        "bench": "rules",
        "figure": figure,
        "value": value,
        "unit": "count",
        "against": against,
        "ratio": None,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
