"""
A small transformer that learns to count, and survives whatever happens to its job.

    python train.py --checkpoints ./ckpt                          # one process
    torchrun --nproc-per-node=2 train.py --checkpoints ./ckpt     # several, over gloo or NCCL
    torchrun --nproc-per-node=2 train.py --shard                  # each holds a part of the model

Five lines make it resilient; they are marked. A run that was interrupted and resumed ends with the
same parameters, bit for bit, as one that was not: the batch of a step depends on step and rank only.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from slurm_resilience.training import Checkpoints, Run

VOCABULARY, LENGTH, BATCH = 64, 32, 8


class Transformer(nn.Module):
    """Guesses the next token of each position."""

    def __init__(self, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        hidden = self.tokens(tokens) + self.positions[:length]
        logits: torch.Tensor = self.out(self.layers(hidden, mask=mask, is_causal=True))
        return logits


def batch_of(step: int, rank: int) -> torch.Tensor:
    """Sequences that count up by a constant: the same for the same step and rank."""
    generator = torch.Generator().manual_seed(step * 100_003 + rank)
    starts = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
    strides = torch.randint(1, 5, (BATCH, 1), generator=generator)
    return (starts + strides * torch.arange(LENGTH + 1)) % VOCABULARY


def spread(model: nn.Module, device: torch.device, *, shard: bool) -> nn.Module:
    """The model on all ranks: each holds a part of it, or all of it."""
    if not shard:
        return DistributedDataParallel(model)
    fully_shard(model, mesh=init_device_mesh(device.type, (dist.get_world_size(),)))
    return model


def digest(model: nn.Module) -> str:
    """SHA-256 of all parameters; for all ranks to call."""
    total = hashlib.sha256()
    for parameter in model.parameters():
        whole = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        total.update(whole.detach().cpu().numpy().tobytes())
    return total.hexdigest()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small transformer on synthetic data.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--checkpoints", default="checkpoints", metavar="DIR")
    parser.add_argument(
        "--every-steps", type=int, default=500, help="steps between checkpoints"
    )
    parser.add_argument(
        "--step-seconds", type=float, default=0.0, help="make each step so long"
    )
    parser.add_argument("--shard", action="store_true", help="fully_shard instead of DDP")
    parser.add_argument("--out", type=Path, metavar="FILE", help="result as JSON, at the end")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def report(result: dict[str, object], out: Path | None) -> None:
    """Say that all is done."""
    print(f"finished: step {result['steps']}", flush=True)
    if out:
        out.write_text(json.dumps(result) + "\n", encoding="utf-8")


def main() -> None:
    options = arguments()
    rank, local_rank = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device(f"cuda:{local_rank}" if options.device == "cuda" else options.device)
    distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if distributed:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    torch.manual_seed(17)
    model: nn.Module = Transformer().to(device)
    if distributed:
        model = spread(model, device, shard=options.shard)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.steps)
    torch.manual_seed(rank)  # dropout differs between ranks

    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loss": 0.0}
    run = Run(
        checkpoints=Checkpoints(options.checkpoints, options.every_steps), state=state
    )  # 1
    start = run.restore()  # 2
    if rank == 0 and start:
        print(f"resuming from step {start}, verified", flush=True)

    for step in range(start, options.steps):
        began = time.monotonic()
        tokens = batch_of(step, rank).to(device)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        state["loss"] = loss.item()
        if rank == 0 and (step + 1) % max(1, options.steps // 20) == 0:
            print(f"step {step + 1}/{options.steps} loss {state['loss']:.4f}", flush=True)
        time.sleep(max(0.0, began + options.step_seconds - time.monotonic()))
        if run.step(step, loss=loss):  # 3
            break  # 4
    run.finish()  # 5

    result = {"steps": options.steps, "loss": state["loss"], "digest": digest(model)}
    if rank == 0 and run.stopped:
        print(f"stopped after step {step + 1}/{options.steps}, saved", flush=True)
    elif rank == 0:
        report(result, options.out)
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
