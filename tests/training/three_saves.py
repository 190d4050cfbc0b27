"""A directory with three checkpoints, and what comes back from it."""

from pathlib import Path

from slurm_resilience.training import Checkpoints, Run
from tests.training.jobs import Level


def saved(directory: Path) -> Path:
    """Checkpoints of the steps 1, 3 and 5 in *directory*."""
    model = Level()
    run = Run(checkpoints=Checkpoints(directory, every_steps=2), state={"model": model})
    run.restore()
    for step in range(6):
        model.rise(step)
        run.step(step)
    run.finish()
    return directory


def restored(directory: Path) -> tuple[int, float]:
    """The first step to do, and the level of the state."""
    model = Level()
    run = Run(checkpoints=Checkpoints(directory), state={"model": model})
    try:
        return run.restore(), model.level()
    finally:
        run.close()
