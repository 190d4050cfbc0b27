"""Draw so many batches from a StatefulDataLoader: FOLDER STEPS WORKERS; prints JSON."""

import json
import sys
from pathlib import Path

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from slurm_resilience.training import Checkpoints, Run, outlive_notice


def main() -> None:
    torch.manual_seed(5)
    folder, steps, workers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    loader = StatefulDataLoader(
        range(40), batch_size=4, shuffle=True, num_workers=workers,
        worker_init_fn=outlive_notice,
    )  # fmt: skip
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    run = Run(checkpoints=Checkpoints(folder / "c"), state={"loader": loader, "scaler": scaler})
    step = run.restore()
    seen: list[list[float]] = []
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    while step < steps:
        for batch in loader:
            seen.append([*batch.tolist(), round(float(torch.rand(1)), 9)])  # as dropout draws
            scaler.scale(weight.sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            run.step(step)
            step += 1
            if step == steps:
                break
    run.finish()
    print(json.dumps([seen, scaler.get_scale()]))  # noqa: T201


if __name__ == "__main__":
    main()
