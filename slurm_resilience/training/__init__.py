"""
What a training script imports.

    run = Run(checkpoints=Checkpoints("/fast/ckpt"), state={"model": model, "optimizer": optimizer})
    start = run.restore()                       # the newest checkpoint that verifies, or 0
    for step in range(start, steps):
        train_step(...)
        if run.step(step):                      # heartbeat; saves when due; True: stop now
            break
    run.finish()

`load` reads one part of a checkpoint elsewhere: to evaluate, to export. `outlive_notice` is for the
workers of a data loader.
"""

from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.restoring import load
from slurm_resilience.training.run import Run
from slurm_resilience.training.workers import outlive_notice
from slurm_resilience.watch.heartbeat import Phase

__all__ = ["Checkpoints", "Phase", "Run", "load", "outlive_notice"]
