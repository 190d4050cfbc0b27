"""A small training with Hugging Face's Trainer: FOLDER [STEP to stop at [URL of copies]]; prints JSON."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from slurm_resilience.training import Checkpoints
from slurm_resilience.training.huggingface import Resilience

FOLDER = Path(sys.argv[1])
STOP_AT = int(sys.argv[2]) if len(sys.argv) > 2 else None
COPIES = sys.argv[3] if len(sys.argv) > 3 else None


class Model(nn.Module):
    """Adds up four numbers, with dropout so that random numbers count."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.seen: list[float] = []

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self.seen.append(float(x.sum()))
        if len(self.seen) == STOP_AT:
            os.kill(os.getpid(), signal.SIGTERM)
        guess = self.layers(x).squeeze(-1)
        return {"loss": (guess - labels).square().mean(), "logits": guess}


def main() -> None:
    numbers = torch.randn(37, 4, generator=torch.Generator().manual_seed(1))
    data: Any = [{"x": row, "labels": row.sum()} for row in numbers]
    torch.manual_seed(7)
    model = Model()
    arguments = TrainingArguments(
        output_dir=str(FOLDER / "o"), num_train_epochs=4, per_device_train_batch_size=4,
        gradient_accumulation_steps=2, save_strategy="no", report_to=[], use_cpu=True,
        disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    resilience = Resilience(Checkpoints(FOLDER / "c", copies=COPIES))
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[resilience])
    trainer.train(resume_from_checkpoint=resilience.resume_from(trainer))
    weights = [parameter.tolist() for parameter in model.parameters()]
    print(json.dumps([resilience.stopped, trainer.state.global_step, model.seen, weights]))  # noqa: T201


if __name__ == "__main__":
    main()
