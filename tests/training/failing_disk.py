"""
A training on a disk that fails at each call in turn: `python -m tests.training.failing_disk`.

Prints one JSON line an attempt. Run by `test_hostile_disk.py`, with the library of `testbed.disk_faults`.
"""

import itertools
import json
import logging
import sys
from pathlib import Path

import torch
from torch import nn

from slurm_resilience.checkpoint_files.listing import found, problems
from slurm_resilience.errors import ResilienceError
from slurm_resilience.training import Checkpoints, Run
from testbed.disk_faults import Fault, How, Kind, Plan

ITEMS = 2_500_000
"""More than one block."""


def main() -> None:
    """Try one fault at one call after the other, until no call is left."""
    directory, plan = Path(sys.argv[1]), Plan(Path(sys.argv[2]))
    fault = Fault(int(sys.argv[3]), How(int(sys.argv[4])), Kind(int(sys.argv[5])))
    logging.disable(logging.CRITICAL)
    attempt(directory)
    for number in itertools.count(1, int(sys.argv[6])):
        before = steps(directory)
        plan.set(fault, number)
        said = attempt(directory)
        fired = plan.clear()
        after = steps(directory)
        line = {
            "number": number,
            "said": said,
            "fired": fired,
            "before": before,
            "after": after,
            "unsound": unsound(directory),
            # What is as it was restores as it did.
            "restored": restored(directory) if after != before else None,
        }
        sys.stdout.write(f"{json.dumps(line)}\n")
        sys.stdout.flush()
        if not fired:
            break


def attempt(directory: Path) -> str:
    """Restore, do one step, save; what was said where that failed."""
    model = nn.Linear(ITEMS, 1, bias=False)
    run = Run(checkpoints=Checkpoints(directory, keep=2), state={"model": model})
    try:
        step = run.restore()
        fill(model, step)
        run.step(step)
        run.finish()
    except ResilienceError as error:
        run.close()
        return str(error)
    return ""


def restored(directory: Path) -> list[float]:
    """With a disk that works again: the first step to do, and what all weights are."""
    model = nn.Linear(ITEMS, 1, bias=False)
    run = Run(checkpoints=Checkpoints(directory, keep=2), state={"model": model})
    start = run.restore()
    run.close()
    weights = model.weight.detach()
    return [start, float(weights[0, 0]) if bool((weights == weights[0, 0]).all()) else -1.0]


def fill(model: nn.Linear, step: int) -> None:
    """Make all weights the step's number."""
    with torch.no_grad():
        model.weight.fill_(step)


def steps(directory: Path) -> list[int]:
    """What is there, the oldest first."""
    return sorted(entry.manifest.step for entry in found(directory) if entry.manifest)


def unsound(directory: Path) -> list[str]:
    """What has a checkpoint's name and is none."""
    return [entry.path.name for entry in found(directory) if next(problems(entry), "")]


if __name__ == "__main__":
    main()
