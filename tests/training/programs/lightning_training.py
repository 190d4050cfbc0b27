"""A small training with Lightning: FOLDER LOADER [STEP at which it is told to stop]; prints JSON."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader

from slurm_resilience.training import Checkpoints
from slurm_resilience.training.lightning import Resilience

FOLDER, LOADER = Path(sys.argv[1]), sys.argv[2]
STOP_AT = int(sys.argv[3]) if len(sys.argv) > 3 else None


class Model(pl.LightningModule):  # type: ignore[misc, unused-ignore]  # where Lightning is not installed
    """Adds up four numbers, with dropout so that random numbers count."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.seen: list[float] = []

    def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
        self.seen.append(float(batch.sum()))
        if self.global_step == STOP_AT:
            os.kill(os.getpid(), signal.SIGUSR2)
        loss: torch.Tensor = (self.layers(batch).squeeze(-1) - batch.sum(1)).square().mean()
        return loss

    def validation_step(self, batch: torch.Tensor, _: int) -> None:
        """Nothing, but Lightning runs it."""

    def configure_optimizers(self) -> Any:  # noqa: ANN401 - Lightning's
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def main() -> None:
    data: Any = torch.randn(37, 4, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(7)
    model = Model()
    if LOADER == "stateful":
        from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: PLC0415 - if asked

        loader = StatefulDataLoader(data, batch_size=4, shuffle=True)
    else:
        loader = DataLoader(data, batch_size=4, shuffle=True)
    resilience = Resilience(Checkpoints(FOLDER / "c"))
    trainer = pl.Trainer(
        default_root_dir=FOLDER, max_epochs=3, callbacks=[resilience],
        accumulate_grad_batches=2, enable_checkpointing=False, logger=False,
        accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, loader, DataLoader(data, batch_size=8))
    weights = [parameter.tolist() for parameter in model.parameters()]
    print(json.dumps([resilience.stopped, trainer.global_step, model.seen, weights]))  # noqa: T201


if __name__ == "__main__":
    main()
