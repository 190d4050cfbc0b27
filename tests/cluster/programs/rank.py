"""
One rank that steps, without torch: `python rank.py [--steps N] [--step-s S] [--raise-at N] …`.

Ranks wait for each other at each step by the shared file system, as a collective would make them
wait. A step is a line of output; the stop word ends the rank after a "checkpoint".
"""

# ruff: noqa: T201 - a job's output is what its owner sees

import argparse
import faulthandler
import os
import subprocess
import sys
import time
from pathlib import Path

from slurm_resilience.watch.heartbeat import (
    DIRECTORY_VARIABLE,
    SAVED_VARIABLE,
    STACK_SIGNAL,
    Heartbeat,
    Phase,
    Stop,
    stack_path,
)

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LOCAL_RANK = int(os.environ["LOCAL_RANK"])


def meet(folder: Path, step: int, *, stop: bool) -> bool:
    """Come back when every rank has come to *step*: whether any of them is told to stop."""
    told = [folder / f"{step}-{rank}" for rank in range(WORLD)]
    fresh = folder / f".{step}-{RANK}"
    fresh.write_text("stop" if stop else "go on")
    fresh.rename(told[RANK])
    while not all(path.exists() for path in told):
        time.sleep(0.01)
    return any(path.read_text() == "stop" for path in told)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--step-s", type=float, default=0.1)
    parser.add_argument("--raise-at", type=int, default=-1)
    parser.add_argument("--children", type=int, default=0)
    arguments = parser.parse_args()

    attempt = os.environ.get("SLURM_RESTART_COUNT", "0")
    folder = Path(f"steps-{os.environ['SLURM_JOB_ID']}-{attempt}")
    folder.mkdir(exist_ok=True)
    saved = Path(f"saved-{os.environ['SLURM_JOB_ID']}")
    heartbeats = Path(os.environ[DIRECTORY_VARIABLE])
    heartbeat = Heartbeat(heartbeats, rank=RANK, local_rank=LOCAL_RANK)
    with stack_path(heartbeats, RANK).open("wb") as stacks:
        faulthandler.register(STACK_SIGNAL, file=stacks, all_threads=True)
        for _ in range(arguments.children):
            subprocess.Popen(["sleep", "3600"], start_new_session=True)
        first = int(saved.read_text()) + 1 if saved.exists() else 0
        print(f"rank {RANK} starts at step {first}", flush=True)
        print(f"rank {RANK} knows of step {os.environ.get(SAVED_VARIABLE)}", flush=True)
        heartbeat.beat(first - 1, Phase.START, saved_step=first - 1, now=time.monotonic())
        for step in range(first, arguments.steps):
            time.sleep(arguments.step_s)
            if step == arguments.raise_at and RANK == WORLD - 1:
                raise ValueError(f"no step {step}")
            stop = meet(folder, step, stop=heartbeat.stop is Stop.SAVE_AND_STOP)
            heartbeat.beat(step, Phase.STEP, saved_step=first - 1, now=time.monotonic())
            if RANK == 0:
                print("step", step, flush=True)
            if stop:
                heartbeat.beat(step, Phase.SAVE, saved_step=first - 1, now=time.monotonic())
                saved.write_text(str(step))
                heartbeat.beat(step, Phase.STEP, saved_step=step, now=time.monotonic())
                print(f"rank {RANK} saved step {step}", flush=True)
                sys.exit(0)
        heartbeat.beat(arguments.steps - 1, Phase.DONE, saved_step=-1, now=time.monotonic())


if __name__ == "__main__":
    main()
