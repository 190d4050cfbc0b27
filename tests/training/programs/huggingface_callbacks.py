"""Early stopping under the Trainer: FOLDER [STEP to stop at]; prints JSON."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments

from slurm_resilience.training import Checkpoints
from slurm_resilience.training.huggingface import Resilience

FOLDER = Path(sys.argv[1])
STOP_AT = int(sys.argv[2]) if len(sys.argv) > 2 else None


class Model(nn.Module):
    """Never becomes better."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.training and trainer.state.global_step == STOP_AT:
            os.kill(os.getpid(), signal.SIGUSR2)
        guess = self.layer(x).squeeze(-1)
        return {"loss": (guess - labels).square().mean(), "logits": guess}


data: Any = [{"x": torch.ones(4), "labels": torch.tensor(1.0)} for _ in range(8)]
arguments = TrainingArguments(
    output_dir=str(FOLDER / "o"), num_train_epochs=20, per_device_train_batch_size=4,
    learning_rate=0.0, save_strategy="no", eval_strategy="steps", eval_steps=2,
    metric_for_best_model="loss", restore_callback_states_from_checkpoint=True,
    report_to=[], use_cpu=True, disable_tqdm=True, logging_strategy="no",
)  # fmt: skip
resilience = Resilience(Checkpoints(FOLDER / "c"))
trainer = Trainer(
    Model(), arguments, train_dataset=data, eval_dataset=data,
    callbacks=[EarlyStoppingCallback(early_stopping_patience=4), resilience],
)  # fmt: skip
trainer.train(resume_from_checkpoint=resilience.resume_from(trainer))
print(json.dumps([resilience.stopped, trainer.state.global_step]))  # noqa: T201
