"""A job of ranks that step without torch, seen as its owner would see it."""

import os
import re
import shutil
import signal
from pathlib import Path

from slurm_resilience.incident import Incident
from slurm_resilience.run_directory import attempt_directory, read_incident
from testbed import Cluster
from tests.cluster.waiting import next_second

PROGRAM = Path(__file__).parent / "programs" / "rank.py"
CONFIG = "watch: {stall_s: 4, report_s: 0.5, silent_s: 30, lost_s: 2, grace_s: 1, claim_s: 1}\n"
RANK = r"^python3 rank\.py"


class Stepping:
    """One submitted job."""

    def __init__(
        self,
        cluster: Cluster,
        arguments: str = "",
        *options: str,
        launcher: str = "python3",
        config: str = CONFIG,
    ) -> None:
        self.cluster = cluster
        self.home = cluster.home("alice")
        shutil.copy(PROGRAM, self.home)
        (self.home / "config.yaml").write_text(config)
        script = f"#!/bin/bash\nexec slurm-resilience run -- {launcher} rank.py {arguments}\n"
        self.id = cluster.sbatch(
            [
                "--nodes=2", "--time=5", "--requeue", "--open-mode=append",
                "--output=%j.out", "--comment=mine slurm-resilience", *options,
            ],
            stdin=script,
            env={"SLURM_RESILIENCE_CONFIG": str(self.home / "config.yaml")},
        )  # fmt: skip
        self.directory = self.home / "slurm-resilience" / self.id

    @property
    def shown(self) -> dict[str, str]:
        return self.cluster.job(self.id)

    @property
    def text(self) -> str:
        output = self.home / f"{self.id}.out"
        return output.read_text() if output.exists() else ""

    @property
    def nodes(self) -> list[str]:
        listed = self.cluster.run(["scontrol", "show", "hostnames", self.shown["NodeList"]])
        return listed.stdout.split()

    def step(self) -> int:
        steps = re.findall(r"^step (\d+)$", self.text, re.MULTILINE)
        return int(steps[-1]) if steps else -1

    def wait_for_step(self, step: int) -> None:
        self.cluster.wait_for(lambda: self.step() >= step, 60, f"step {step}")

    def wait_for_text(self, text: str, timeout_s: float = 60) -> None:
        self.cluster.wait_for(lambda: text in self.text, timeout_s, repr(text))

    def wait_for_state(self, *states: str) -> None:
        self.cluster.wait_for(lambda: self.shown.get("JobState") in states, 60, str(states))

    def start_next_attempt(self) -> None:
        """Lift Slurm's delay, as the controller does; not in the second in which it ended."""
        self.wait_for_state("PENDING")
        next_second(self.cluster)
        self.cluster.run(["scontrol", "update", f"JobId={self.id}", "StartTime=now"])
        self.wait_for_text("attempt 1 of job")

    def signal_ranks(self, node: str, signum: signal.Signals) -> None:
        for pid in self.cluster.nodes[node].pids(RANK):
            os.kill(pid, signum)

    def kill(self, node: str, pattern: str) -> None:
        """kill -9 of the one process whose command line matches."""
        (pid,) = self.cluster.nodes[node].pids(pattern)
        os.kill(pid, signal.SIGKILL)

    def left(self) -> dict[str, list[int]]:
        """What is alive of the job, by node."""
        found = {name: node.pids_of("alice") for name, node in self.cluster.nodes.items()}
        return {name: pids for name, pids in found.items() if pids}

    def wait_for_nothing_left(self) -> None:
        self.cluster.wait_for(lambda: not self.left(), 30, "no process of the job left")

    def incident(self, attempt: int = 0) -> Incident:
        found = read_incident(self.directory, attempt)
        assert found is not None, self.text
        return found

    def stacks(self, attempt: int = 0) -> dict[str, str]:
        folder = attempt_directory(self.directory, attempt) / "stacks"
        return {path.stem: path.read_text() for path in folder.iterdir()}
