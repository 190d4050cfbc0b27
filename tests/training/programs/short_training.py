"""Twenty steps under torchrun, and the end as many scripts have it: no destroy_process_group."""

import sys

import torch
import torch.distributed as dist

from slurm_resilience.training import Checkpoints, Run

dist.init_process_group("gloo")
run = Run(checkpoints=Checkpoints(sys.argv[1]), state={"x": torch.zeros(1000)})
start = run.restore()
for step in range(start, start + 20):
    run.step(step)
run.finish()
