"""A training that forgets `finish`, or only closes and outlives its save: DIRECTORY [close]."""

import gc
import sys
import weakref

import torch

from slurm_resilience.training import Checkpoints, Run

state = {"x": torch.zeros(10_000_000)}
run = Run(checkpoints=Checkpoints(sys.argv[1], every_steps=1), state=state)
run.step(run.restore())
if sys.argv[2:]:
    saver = weakref.ref(run._saver)  # noqa: SLF001 - that it goes is asked
    run.close()
    again = Run(checkpoints=Checkpoints(sys.argv[1]), state=state)
    again.restore()
    again.close()
    del run, again
    gc.collect()
    sys.stdout.write("held\n" if saver() else "forgotten\n")
