"""Early stopping, and a data module that counts: FOLDER [STEP at which it is told to stop]; prints JSON."""

import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import EarlyStopping
from torch import nn
from torch.utils.data import DataLoader

from slurm_resilience.training import Checkpoints
from slurm_resilience.training.lightning import Resilience

FOLDER = Path(sys.argv[1])
STOP_AT = int(sys.argv[2]) if len(sys.argv) > 2 else None


class Data(pl.LightningDataModule):  # type: ignore[misc, unused-ignore]  # where Lightning is not installed
    """Counts the batches of all attempts."""

    batches = 0

    def train_dataloader(self) -> Any:  # noqa: ANN401 - Lightning's
        return DataLoader(torch.ones(8, 4), batch_size=4)  # type: ignore[arg-type]

    val_dataloader = train_dataloader

    def state_dict(self) -> dict[str, Any]:
        return {"batches": self.batches}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.batches = state_dict["batches"]


class Model(pl.LightningModule):  # type: ignore[misc, unused-ignore]  # where Lightning is not installed
    """Never becomes better."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.data = data

    def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
        self.data.batches += 1
        if self.global_step == STOP_AT:
            os.kill(os.getpid(), signal.SIGUSR2)
        loss: torch.Tensor = self.layer(batch).square().mean()
        return loss

    def validation_step(self, _batch: torch.Tensor, _: int) -> None:
        self.log("metric", 1.0)

    def configure_optimizers(self) -> Any:  # noqa: ANN401 - Lightning's
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["mine"] = 1


def main() -> None:
    logging.basicConfig()
    stopping = EarlyStopping("metric", patience=4)
    resilience = Resilience(Checkpoints(FOLDER / "c"))
    trainer = pl.Trainer(
        default_root_dir=FOLDER, max_epochs=20, callbacks=[stopping, resilience],
        enable_checkpointing=False, logger=False, accelerator="cpu",
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    data = Data()
    trainer.fit(Model(data), datamodule=data)
    counts = [stopping.wait_count, trainer.global_step, data.batches]
    print(json.dumps([resilience.stopped, *counts]))  # noqa: T201


if __name__ == "__main__":
    main()
