"""
How fast a job comes back: `python -m benchmarks.requeue [--short]`, as root.

A real cluster, the real controller at its default settings. A job's incident is written, and the
time until the first line of its next attempt taken; beside it, how long Slurm alone makes a
requeued job wait, as it says so itself. One JSON line a figure.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from slurm_resilience.bounded import ask
from slurm_resilience.incident import Incident, Suspect
from slurm_resilience.run_directory import write_incident
from testbed import Cluster
from testbed.layout import USERS

SCRIPT = """#!/bin/bash
#SBATCH --comment=slurm-resilience --open-mode=append --nodes=2 --output={output}
echo attempt ${{SLURM_RESTART_COUNT:-0}} $(date +%s.%N)
sleep 600
"""
AGAINST = "scontrol requeue"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer rounds")
    parser.add_argument("--instance", type=int, default=9, help="of the testbed")
    arguments = parser.parse_args()
    with Cluster.up(nodes=4, gpus=0, instance=arguments.instance, hooks=False) as cluster:
        alone_s = slurm_alone_s(cluster)
        cluster.reset()
        controller = cluster.popen(["slurm-resilience", "controller"], user="root")
        rounds = range(3 if arguments.short else 20)
        ours_s = [back_s(cluster, number) for number in rounds]
        controller.terminate()
        controller.communicate()
    _print("decision_to_first_line_s", statistics.median(ours_s), alone_s)
    _print("decision_to_first_line_worst_s", max(ours_s), alone_s)


def back_s(cluster: Cluster, number: int) -> float:
    """Seconds from an incident to the first line of the next attempt."""
    output = cluster.home("alice") / f"{number}.out"
    job = cluster.sbatch([], stdin=SCRIPT.format(output=output))
    cluster.wait_for(lambda: began(output, 0), describe="the first attempt")
    told_at = time.time()
    incident = Incident(
        job=job, attempt=0, kind="stall", class_="hardware", cause="rank-stopped",
        reason="a rank on n1 stopped", retry="exclude-node", detected_at=told_at,
        suspects=(Suspect("n1", "its rank stopped"),), last_step=5, saved_step=5,
    )  # fmt: skip
    directory = cluster.home("alice") / "slurm-resilience" / job

    def tell() -> Iterator[bytes]:
        write_incident(directory, incident)
        yield b"told"

    told = ask(tell, deadline_s=10, as_user=USERS[0].id)
    if told.trouble:
        raise SystemExit(f"benchmarks.requeue: {told.trouble}")
    cluster.wait_for(lambda: began(output, 1), describe="the second attempt")
    cluster.run(["scancel", job])
    cluster.wait_for(cluster.is_idle, describe="idle nodes")
    return began(output, 1) - told_at


def slurm_alone_s(cluster: Cluster) -> float:
    """Seconds that Slurm makes a requeued job wait, from the begin time that it gives."""
    output = cluster.home("alice") / "alone.out"
    job = cluster.sbatch([], stdin=SCRIPT.format(output=output))
    cluster.wait_for(lambda: began(output, 0), describe="the first attempt")
    asked_at = time.time()
    cluster.run(["scontrol", "requeue", job])
    cluster.wait_for_job(job, "PENDING")
    begins = cluster.job(job)["EligibleTime"]
    return time.mktime(time.strptime(begins, "%Y-%m-%dT%H:%M:%S")) - asked_at


def began(output: Path, attempt: int) -> float:
    """When an attempt wrote its first line; 0.0 before."""
    lines = (
        [line.split() for line in output.read_text().splitlines()] if output.exists() else []
    )
    times = [line[2] for line in lines if line[:2] == ["attempt", str(attempt)]]
    return float(times[0]) if times else 0.0


def _print(figure: str, value: float, against: float) -> None:
    line = {
        "bench": "requeue",
        "figure": figure,
        "value": round(value, 2),
        "unit": "s",
        "against": AGAINST,
        "ratio": round(value / against, 4),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
