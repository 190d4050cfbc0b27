"""A few steps on nodes with disks of their own; rank 0 prints where they began: DIRECTORY STEPS."""

import sys

import torch

from slurm_resilience.training import Checkpoints, Run

torch.distributed.init_process_group("gloo")
checkpoints = Checkpoints(sys.argv[1], every_steps=1, per_node=True)
run = Run(checkpoints=checkpoints, state={"x": torch.zeros(1000)})
start = run.restore()
for step in range(start, int(sys.argv[2])):
    run.step(step)
run.finish()
if torch.distributed.get_rank() == 0:
    sys.stdout.write(f"start {start}\n")
torch.distributed.destroy_process_group()
