"""A healthy host over a day, with all the noise of one: nothing to say."""

import random
from collections.abc import Iterator

import msgspec
import pytest

from slurm_resilience.node.facts import (
    ClockFacts,
    DiskFacts,
    DriveFacts,
    LibraryFacts,
    LoadFacts,
    MemoryFacts,
    NodeFacts,
    ProcessFacts,
    RaidFacts,
    SensorFacts,
    ServiceFacts,
    StuckProcess,
    Trend,
    UpsFacts,
)
from slurm_resilience.node.findings import Severity
from slurm_resilience.node.rules import judge
from slurm_resilience.node.settings import Expectations, NodeSettings
from slurm_resilience.node.trending import follow

EVERY_S = 300
A_DAY = 86_400 // EVERY_S
SETTINGS = NodeSettings(
    expect=Expectations(services=("nvidia-fabricmanager",), modules=("nvidia-peermem",))
)


class Host:
    """Jobs come and go; counters creep; what is in D state is another one each time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.moved = 0
        self.corrected = self.chance.randint(0, 5000)
        self.busy = False

    def day(self) -> Iterator[NodeFacts]:
        trends: tuple[Trend, ...] = ()
        for place in range(A_DAY):
            now_s = 100.0 + place * EVERY_S
            facts = self._look()
            trends = follow(trends, facts, now_s)
            yield msgspec.structs.replace(facts, trends=trends)

    def _look(self) -> NodeFacts:
        chance = self.chance
        was_busy = self.busy
        if chance.random() < 0.1:
            self.busy = not self.busy
        worked = self.busy or was_busy
        # A job moves gigabytes; an idle node's file system client and monitoring a few Mbit/s.
        self.moved += chance.randint(0, 10**12) if worked else chance.randint(0, 10**9)
        self.corrected += chance.choice((0, 0, 0, 0, 1, 3))
        waiting = chance.sample(range(2, 400), chance.randint(0, 3)) if worked else []
        return NodeFacts(
            "n1", boot_id="3f2c6a1e",
            shm=DiskFacts("/dev/shm", used_percent=chance.randint(0, 79)),
            memory=MemoryFacts(
                2_063_000, uncorrected=0, corrected=self.corrected, poisoned_kib=0,
                machine_checks=0,
            ),
            processes=ProcessFacts(
                stuck=tuple(
                    StuckProcess(pid, "python", "D", chance.randint(0, 10**6), in_driver=True)
                    for pid in waiting
                ),
                threads=chance.randint(2_000, 60_000), threads_max=4_194_304,
                files=chance.randint(5_000, 200_000), files_max=2**63 - 1,
                slurmd=True, steps=chance.randint(1, 4) if self.busy else 0,
            ),
            load=LoadFacts(
                chance.uniform(0, 190) if worked else chance.uniform(0, 5), 192,
                network_bytes=self.moved,
            ),
            clock=ClockFacts(synchronised=True, offset_s=chance.uniform(-0.02, 0.02), error_s=chance.uniform(0, 0.05)),
            services=(ServiceFacts("nvidia-fabricmanager", "loaded", "active", "running"),),
            modules={"nvidia-peermem": True},
            libraries=(LibraryFacts("libcuda.so.1"),),
            drives=(
                DriveFacts(
                    "nvme0", "live", critical_warning=0, percent_used=chance.randint(0, 99),
                    media_errors=14,
                ),
                DriveFacts("sda", passed=True),
                DriveFacts("sdb", unread={"health": "not supported: no SMART status"}),
            ),
            raids=(RaidFacts("md0", "active", "raid1", recovering=chance.random() < 0.1),),
            sensors=(
                SensorFacts("PS1 Status", "power-supply", "ok", "Presence detected"),
                SensorFacts("PS3 Status", "power-supply", "ns", "No Reading"),
                SensorFacts("FAN1", "fan", "ok", f"{chance.randint(2000, 9000)} RPM"),
            ),
            upses=(UpsFacts("rack7@nut", chance.choice((("OL",), ("OL", "CHRG")))),),
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_a_healthy_host_is_never_spoken_of(seed: int) -> None:
    """Neither a drain nor a warning that teaches people to read past the next one."""
    for facts in Host(seed).day():
        said = [one for one in judge(facts, SETTINGS) if one.severity > Severity.OK]

        assert said == []
