"""A training that forgets `finish`: DIRECTORY."""

import sys

import torch

from slurm_resilience.training import Checkpoints, Run

run = Run(
    checkpoints=Checkpoints(sys.argv[1], every_steps=1),
    state={"x": torch.zeros(10_000_000)},
)
run.step(run.restore())
