"""Where checkpoints go, how often, and how many are kept."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slurm_resilience.checkpoint_files.store import check_url
from slurm_resilience.errors import UsageError
from slurm_resilience.training.arguments import count, flag, minutes, place, refused
from slurm_resilience.training.due import Due

COPIES_INSTEAD = "save to a disk here, and give copies= the URL"
NOT_HERE = "leave it out: what is not on a disk here shares none"


@dataclass(frozen=True)
class Checkpoints:
    """
    Checkpoints in *directory*, which every rank has to see (but for *per_node*): a fast, shared disk, not the one that
    the training data is read from.

    One is written every *every_steps* steps or *every_minutes* minutes, whichever is first (None:
    not by that), and when the job is told to stop. The newest *keep* are kept. The directory
    itself is made where it is missing, what it lies in is not: that is a missing mount. A relative
    one is taken from where the process is when this is made.

    *if_busy*: what happens when a save is due and the last one is not done. "wait": training stands
    until it is, and the save is of the step it was due at. "skip": training goes on, and saves at
    the first step at which it is done.

    *training_data*: where that is read from; said in the log if it is the same file system.
    *copies*: a URL (`s3://bucket/path`, one a training) to which the newest sound checkpoint is copied
    every *copy_every_minutes*, beside the training; the newest *keep_copies* stay there. Where
    the directory holds no checkpoint, the newest copy is fetched.

    *per_node*: the directory lies on a disk of each node. Each holds what its own ranks need, and a
    checkpoint is there when all parts of it are; a node that is replaced takes its part along.
    """

    directory: str | os.PathLike[str]
    every_steps: int | None = 500
    every_minutes: float | None = 30.0
    keep: int = 3
    if_busy: Literal["wait", "skip"] = "wait"
    training_data: str | os.PathLike[str] | None = None
    copies: str | None = None
    copy_every_minutes: int = 120
    keep_copies: int = 2
    per_node: bool = False

    def __post_init__(self) -> None:
        """Refuse nonsense with a `UsageError`; keep what is left as what it means."""
        known: dict[str, object] = {
            "directory": place("directory", self.directory, instead_of_url=COPIES_INSTEAD),
            "per_node": flag("per_node", self.per_node),
        }
        if self.every_steps is None and self.every_minutes is None:
            raise UsageError(
                "Checkpoints: set every_steps or every_minutes, or nothing is saved"
            )
        if self.every_steps is not None:
            known["every_steps"] = count("every_steps", self.every_steps)
        if self.every_minutes is not None:
            known["every_minutes"] = minutes("every_minutes", self.every_minutes)
        for name in ("keep", "copy_every_minutes", "keep_copies"):
            known[name] = count(name, getattr(self, name))
        if self.training_data is not None:
            known["training_data"] = place(
                "training_data", self.training_data, instead_of_url=NOT_HERE
            )
        if self.copies is not None:
            check_url(self.copies)
        if self.if_busy not in ("wait", "skip"):  # of any kind, hashable or not
            raise refused("if_busy", self.if_busy, '"wait" or "skip"')
        for name, value in known.items():
            object.__setattr__(self, name, value)  # the class is frozen for others

    @property
    def path(self) -> Path:
        """The directory."""
        return Path(self.directory)

    @property
    def data_path(self) -> Path | None:
        """Where the training data lies; None: not said."""
        return None if self.training_data is None else Path(self.training_data)

    @property
    def due(self) -> Due:
        """When to save."""
        return Due(
            self.every_steps, None if self.every_minutes is None else self.every_minutes * 60
        )
