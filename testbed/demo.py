"""
`make demo`: one fault, end to end, on a real Slurm cluster on this machine.

Everything is what a site would run: slurmctld, slurmd, the prolog and epilog, the controller, the
sbatch template, torchrun. The faults come from outside: a stand-in NVML library says what a broken
GPU would say, and SIGSTOP freezes a rank.
"""

import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_resilience.errors import ResilienceError
from slurm_resilience.run_directory import read_incident
from testbed import Cluster

STEPS = 240
EVERY_STEPS = 40
STEP_SECONDS = 0.08
STALL_S = 8
CONFIG = f"""\
watch: {{stall_s: {STALL_S}, report_s: 1}}
requeue: {{tick_s: 0.5}}
"""
SHARE = Path(sys.prefix) / "share" / "slurm-resilience"


class Story:
    """Lines for a newcomer, each with the seconds since the story began."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def tell(self, text: str) -> None:
        """Say what happens."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def show(self, text: str) -> None:
        """Quote what a user would see."""
        for line in text.rstrip().splitlines():
            print(f"             | {line}", flush=True)


def main() -> int:
    """Tell the story; 0 when it ended well."""
    story = Story()
    story.tell("bringing up a Slurm cluster of four nodes, 8 (stand-in) GPUs each …")
    with Cluster.up(nodes=4, gpus=8, config=CONFIG) as cluster:
        keep = Path("/tmp/slurm-resilience-demo")
        try:
            with controller(cluster):
                return play(cluster, story, keep)
        finally:
            shutil.rmtree(keep, ignore_errors=True)
            shutil.copytree(cluster.home("alice"), keep, symlinks=True)


@contextmanager
def controller(cluster: Cluster) -> Iterator[None]:
    """The requeue controller, as a site would run it beside slurmctld."""
    said = cluster.home("alice") / "controller.log"
    process = cluster.popen(
        ["sh", "-c", f"exec slurm-resilience controller 2>{said}"], user="root"
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


def play(cluster: Cluster, story: Story, keep: Path) -> int:
    """The story itself."""
    home = cluster.home("alice")
    for name in ("sbatch_templates/torchrun_multi_node.sbatch", "examples/train.py"):
        shutil.copy(SHARE / name, home)
    output = home / "training.out"

    story.tell("n4: a GPU has a failed row remap. n4 and n2 are what Slurm would pick first.")
    cluster.nodes["n4"].gpu(0).set(remap_failed=1)
    for node, weight in (("n4", 1), ("n2", 2), ("n1", 3), ("n3", 4)):
        cluster.run(["scontrol", "update", f"NodeName={node}", f"Weight={weight}"], user="root")

    job = cluster.sbatch(
        ["--nodes=2", "--gpus-per-node=1", f"--output={output}", "torchrun_multi_node.sbatch",
         *training(home / "checkpoints", home / "faulty.json")],
        user="alice", cwd=home,
    )  # fmt: skip
    story.tell(f"alice submits a two-node training: job {job}")

    cluster.wait_for(lambda: "DRAIN" in cluster.node_state("n4"), timeout_s=30)
    story.tell("the prolog on n4 refuses the job and drains the node:")
    story.show(
        cluster.run(["sinfo", "-R", "--noheader", "--format=%N %E"], user="alice").stdout
    )

    cluster.wait_for(lambda: step_of(output) >= 0, timeout_s=90)
    story.tell(f"the same job runs on {cluster.job(job)['NodeList']}, by itself")
    # Between two saves: a rank that freezes in one is given the time that a save may take.
    cluster.wait_for(lambda: step_of(output) >= EVERY_STEPS * 3 + EVERY_STEPS // 4, 90)

    frozen = time.time()
    cluster.nodes["n2"].gpu(0).set(ecc_uncorrected=1)
    for pid in cluster.nodes["n2"].ranks().values():
        os.kill(pid, signal.SIGSTOP)
    story.tell(
        f"step {step_of(output)}: n2's GPU gets an uncorrectable ECC error, its rank freezes."
        " No error, every process alive: a stall"
    )

    attempt = int(cluster.job(job)["Restarts"])
    directory = home / "slurm-resilience" / job
    incident = cluster.wait_for(lambda: read_incident(directory, attempt), STALL_S + 30)
    story.tell("the stall is found, with the node that the evidence names:")
    story.show(incident.reason)
    cluster.wait_for(lambda: int(cluster.job(job)["Restarts"]) > attempt, timeout_s=30)
    story.tell("the controller puts the job back in the queue, without n2:")
    again = f"attempt {attempt + 1}"
    cluster.wait_for(lambda: again in output.read_text(), timeout_s=60)
    restarted = time.time()
    said = (home / "controller.log").read_text().splitlines()
    story.show(
        "\n".join(line for line in said if f"attempt {attempt}" in line or again in line)
    )
    story.tell(f"next attempt on {cluster.job(job)['NodeList']}")
    cluster.wait_for(lambda: "DRAIN" in cluster.node_state("n2"), timeout_s=30)
    story.tell("n2's own checks agree, and drain it:")
    story.show(
        cluster.run(["sinfo", "-R", "--noheader", "--format=%N %E"], user="alice").stdout
    )

    cluster.wait_for(lambda: cluster.job(job)["JobState"] == "COMPLETED", timeout_s=120)
    ended = time.time()
    story.tell("finished. Now the same training undisturbed, to compare")
    undisturbed = cluster.sbatch(
        ["--nodes=1", "--gpus-per-node=2", f"--output={home}/undisturbed.out",
         "torchrun_multi_node.sbatch",
         *training(home / "checkpoints-undisturbed", home / "undisturbed.json")],
        user="alice", cwd=home,
    )  # fmt: skip
    cluster.wait_for(lambda: cluster.job(undisturbed)["JobState"] == "COMPLETED", timeout_s=120)
    story.tell("the bill:")
    resumed = re.search(r"resuming from step (\d+)", output.read_text())
    lost = (incident.last_step or 0) + 1 - int(resumed.group(1) if resumed else 0)
    bill = {
        "detection": f"{incident.detected_at - frozen:.1f} s (stall limit {STALL_S} s)",
        "requeue": f"{restarted - incident.detected_at:.1f} s to the next attempt's first line",
        "lost steps": f"{max(lost, 0)} (saved every {EVERY_STEPS})",
        "total": f"{ended - frozen:.1f} s from the fault to the finished run",
        "files": f"{keep}: training.out, slurm-resilience/*/attempt-*/{{incident.json,stacks}}",
    }
    for name, value in bill.items():
        print(f"    {name:<11} {value}")
    return compare(home)


def training(checkpoints: Path, out: Path) -> list[str]:
    """The researcher's own part of the command line."""
    return [
        "train.py", f"--steps={STEPS}", f"--every-steps={EVERY_STEPS}",
        f"--step-seconds={STEP_SECONDS}", f"--checkpoints={checkpoints}", f"--out={out}",
    ]  # fmt: skip


def step_of(output: Path) -> int:
    """The last step that the job's output names, -1 before the first."""
    if not output.exists():
        return -1
    words = [line.split() for line in output.read_text().splitlines()]
    steps = [
        int(line[1].partition("/")[0]) for line in words if len(line) > 1 and line[0] == "step"
    ]
    return steps[-1] if steps else -1


def compare(home: Path) -> int:
    """Hold the two results against each other; 1 when they differ."""
    faulty = json.loads((home / "faulty.json").read_text())
    undisturbed = json.loads((home / "undisturbed.json").read_text())
    same = bool(faulty["digest"] == undisturbed["digest"])
    print(f"    loss        {faulty['loss']}, undisturbed {undisturbed['loss']}")
    print(f"    parameters  {'equal bit for bit' if same else 'DIFFER'}")
    return 0 if same else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ResilienceError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(2)
