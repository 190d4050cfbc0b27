"""What a plan is made from: what is asked, and what earlier attempts have shown."""

from typing import Literal

import msgspec

Precision = Literal["mixed", "fp32", "bf16"]
Optimizer = Literal[
    "adamw", "adam", "adamw-8bit", "lion", "muon", "sgd-momentum", "adafactor", "sgd"
]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a person knows. Rates are those of all nodes together unless they say otherwise."""

    parameters: float | None = None
    optimizer: Optimizer = "adamw"
    precision: Precision = "mixed"
    nodes: int
    gpus_per_node: int
    write_gb_per_s: float | None = None
    """10^9 bytes a second, to where checkpoints lie."""
    copy_gb_per_s: float = 10.0
    """10^9 bytes a second from one GPU to host memory: what the training thread waits for."""
    slowdown: float = 0.1
    """Share by which training is slower while a save is written beside it. Half was published for 70
    billion parameters on 1856 GPUs (PyTorch's blog, 2025-04-30); a guess that one's own log betters."""
    mtbf_s: float | None = None
    """Between two failures of the job as a whole."""
    startup_s: float = 300.0
    """From the start of an attempt to its first step, without loading the checkpoint."""
    step_s: float | None = None
    gpu_memory_gib: float = 80.0
    keep: int = 3


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen; None where nothing was."""

    size_bytes: int | None = None
    """Of the newest checkpoint."""
    save_s: float | None = None
    """The longest save among the checkpoints that are there."""
    step_s: float | None = None
    failures: int = 0
    """Attempts that crashed or stalled through no doing of a person or of Slurm."""
    ran_s: float = 0.0
    """How long the attempts ran whose beginning is known."""
    away_s: float | None = None
    """Mean time from the last progress to the start of the next attempt."""
    notes: tuple[str, ...] = ()
    """What could not be read."""

    @property
    def mtbf_s(self) -> float | None:
        """Mean time between failures; None where there was none."""
        return self.ran_s / self.failures if self.failures and self.ran_s > 0 else None
