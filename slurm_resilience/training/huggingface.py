"""
For Hugging Face's `Trainer`, in one process or under DistributedDataParallel:

    resilience = Resilience(Checkpoints("/fast/ckpt"))
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[resilience])
    trainer.train(resume_from_checkpoint=resilience.resume_from(trainer))

The Trainer needs no checkpoints of its own beside it: `TrainingArguments(save_strategy="no")`.
"""

# ruff: noqa: ARG002 - the signatures are the Trainer's

import dataclasses
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from slurm_resilience.checkpoint_files.listing import Found
from slurm_resilience.errors import ResilienceError, UsageError
from slurm_resilience.training import rng
from slurm_resilience.training.bringing import opened
from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.choosing import Prefer, Wanted, first_sound
from slurm_resilience.training.earlier import saved_before
from slurm_resilience.training.parts import held
from slurm_resilience.training.peers import Peers
from slurm_resilience.training.restoring import part_of
from slurm_resilience.training.run import Run

log = logging.getLogger(__name__)

LOADS_WEIGHTS = "_load_from_checkpoint"
POSITION = "resilience-position"
"""Where the Trainer is told how far the training is; in its output directory."""


class Resilience(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Restores, saves when due, and stops when told, in place of the Trainer's own checkpoints."""

    def __init__(self, checkpoints: Checkpoints, *, prefer: Prefer = "newest") -> None:
        self._checkpoints = checkpoints
        self._prefer: Prefer = prefer
        self._scaler: Any = None
        self._callbacks: list[TrainerCallback] = []
        self._sound: Found | None = None
        """What `resume_from` has verified and announced."""
        self._run: Run | None = None
        self._rng: rng.State | None = None

    def resume_from(self, trainer: Trainer) -> str | None:
        """
        What to hand to `trainer.train(resume_from_checkpoint=…)`; None to begin.

        The Trainer reads from it how far the training is, and so which data come next; what the
        training has learnt is restored when it begins. Call it on all ranks.
        """
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise UsageError(
                "Resilience: not for a Trainer with FSDP or DeepSpeed; use a loop of your own"
            )
        self._scaler = trainer.accelerator.scaler
        self._callbacks = trainer.callback_handler.callbacks
        folder = Path(str(trainer.args.output_dir)) / POSITION
        peers = Peers(timeout_s=1800.0)
        try:
            position = self._position(peers)
            if position is None:
                return None

            def leave() -> None:
                if trainer.args.local_process_index == 0:
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / TRAINER_STATE_NAME).write_text(position, encoding="utf-8")

            peers.each(leave)
        finally:
            peers.end()
        # It would insist on weights there, and ours are restored when the training begins.
        setattr(trainer, LOADS_WEIGHTS, lambda *_: None)
        return str(folder)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **parts: Any,  # noqa: ANN401
    ) -> None:
        """Restore what `resume_from` has announced."""
        learnt = {
            "model": parts["model"],
            "optimizer": parts["optimizer"],
            "scheduler": parts["lr_scheduler"],
            "trainer": Position(state, self._callbacks),
        }
        if self._scaler is not None:
            learnt["scaler"] = self._scaler
        self._run = Run(checkpoints=self._checkpoints, state=learnt)
        start = self._run.restore(prefer=self._prefer, verified=self._sound)
        _check(start, state)
        self._rng = rng.captured() if start else None

    def on_epoch_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: object,
    ) -> None:
        """At the beginning of an epoch what comes next is the shuffling."""
        if float(state.epoch or 0).is_integer():
            self._restore_rng()

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: object,
    ) -> None:
        """In the midst of an epoch the Trainer has drawn numbers to come back to its place."""
        self._restore_rng()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: object,
    ) -> None:
        """Save when due; stop when told."""
        if self._run and self._run.step(state.global_step - 1):
            control.should_training_stop = True

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: object,
    ) -> None:
        """Save the last step; wait until everything is on disk."""
        if self._run:
            self._run.finish()

    @property
    def stopped(self) -> bool:
        """Whether the training was told to stop, and has more to do."""
        return self._run is not None and self._run.stopped

    def _restore_rng(self) -> None:
        if self._rng is not None:
            rng.restore(self._rng)
            self._rng = None

    def _position(self, peers: Peers) -> str | None:
        """As `Run.restore` will choose, but for what that refuses."""
        before = max(peers.each(lambda: saved_before(os.environ, rank=peers.rank)))
        hold = opened(self._checkpoints, peers, before)
        try:
            here = held(self._checkpoints.path, peers, hold.nodes)
            sound, _ = first_sound(here, peers, hold.nodes, Wanted(self._prefer))
            position = peers.first(lambda: _read(sound) if sound else None)
        except ResilienceError:
            hold.release()
            raise
        hold.give_back(peers)  # `Run.restore` claims it anew
        self._sound = sound
        return position


def _read(entry: Found) -> str:
    return str(part_of(entry, "trainer")["json"])


class Position:
    """The Trainer's own record of how far it is."""

    def __init__(self, state: TrainerState, callbacks: Sequence[TrainerCallback]) -> None:
        self._state = state
        self._callbacks = callbacks

    def state_dict(self) -> dict[str, str]:
        """As the Trainer writes it, with what callbacks (early stopping) keep now."""
        kept: list[Any] = [one for one in self._callbacks if isinstance(one, ExportableState)]
        now = TrainerState(stateful_callbacks=kept).stateful_callbacks
        position = dataclasses.asdict(self._state)
        return {"json": json.dumps({**position, "stateful_callbacks": now})}

    def load_state_dict(self, state: dict[str, str]) -> None:
        """The Trainer has read it already, see `resume_from`."""
        _check(json.loads(state["json"])["global_step"], self._state)


def _check(step: int, state: TrainerState) -> None:
    if step != state.global_step:
        raise UsageError(
            f"the Trainer stands at step {state.global_step}, the newest sound checkpoint at "
            f"{step}: call trainer.train(resume_from_checkpoint=resilience.resume_from(trainer))"
        )
