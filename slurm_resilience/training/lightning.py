"""
For Lightning's `Trainer`, in one process or with the strategy ddp:

    resilience = Resilience(Checkpoints("/fast/ckpt"))
    trainer = Trainer(callbacks=[resilience], enable_checkpointing=False, …)
    trainer.fit(model, data)

A loader that goes on in the midst of an epoch is a StatefulDataLoader (torchdata); another begins it
anew, and Lightning says so.
"""

# ruff: noqa: ARG002 - the signatures are Lightning's

import logging
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from slurm_resilience.training import rng
from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.choosing import Prefer
from slurm_resilience.training.run import Run
from slurm_resilience.training.sound import Loss

log = logging.getLogger(__name__)


class Resilience(Callback):  # type: ignore[misc,unused-ignore]
    """Restores, saves when due, and stops when told, in place of ModelCheckpoint and ckpt_path."""

    def __init__(self, checkpoints: Checkpoints, *, prefer: Prefer = "newest") -> None:
        self._checkpoints = checkpoints
        self._prefer: Prefer = prefer
        self._run: Run | None = None
        self._rng: rng.State | None = None
        self._done = 0
        """Steps of the optimizer."""
        self._loss: Loss = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restore; Lightning's loops then know where they are."""
        state: dict[str, Any] = {
            "model": pl_module,
            "loops": Loops(trainer),
            "kept": Kept(trainer),
        }
        for number, optimizer in enumerate(trainer.optimizers):
            state[f"optimizer-{number}"] = optimizer
        for number, config in enumerate(trainer.lr_scheduler_configs):
            state[f"scheduler-{number}"] = config.scheduler
        state["precision"] = trainer.precision_plugin
        _tell_of_hooks(trainer)
        _call_last(trainer, self)
        self._run = Run(checkpoints=self._checkpoints, state=state)
        start = self._done = self._run.restore(prefer=self._prefer)
        amid_epoch = start and not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch
        self._rng = rng.captured() if amid_epoch else None

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int
    ) -> None:
        """The loaders have drawn numbers to come back to their place."""
        if self._rng is not None:
            rng.restore(self._rng)
            self._rng = None

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,  # noqa: ANN401 - as the module's training_step returns it
        batch: object,
        batch_idx: int,
    ) -> None:
        """Save when due; stop when told."""
        self._loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        # After an epoch's last batch the loops do not yet know that it has ended.
        if not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            self.step(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the last step; wait until everything is on disk."""
        if self._run:
            self._run.finish()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Give signals and files back."""
        if self._run:
            self._run.close()

    def step(self, trainer: Trainer) -> None:
        """Save when due; stop when told: at the end of a batch, or of an epoch."""
        # Not between two steps of the optimizer: there are gradients then, which are not saved.
        if self._run is None or trainer.global_step == self._done:
            return
        self._done = trainer.global_step
        if self._run.step(self._done - 1, loss=self._loss):
            trainer.should_stop = True

    @property
    def stopped(self) -> bool:
        """Whether the training was told to stop, and has more to do."""
        return self._run is not None and self._run.stopped


class EpochEnd(Checkpoint):  # type: ignore[misc,unused-ignore]
    """Steps at the end of an epoch: Lightning calls it after early stopping, which has then counted it."""

    def __init__(self, resilience: Resilience) -> None:
        self.resilience = resilience

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """As after every other batch."""
        self.resilience.step(trainer)


class Loops:
    """Where Lightning's loops, and its loaders, stand."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        """As Lightning keeps it in its own checkpoints."""
        return dict(self._trainer.fit_loop.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """To be called before they run."""
        if state["epoch_loop.batch_progress"]["is_last_batch"]:
            # A loader that has come to its end would give the same epoch again.
            state["state_dict"] = {**state["state_dict"], "combined_loader": []}
        self._trainer.fit_loop.load_state_dict(state)


class Kept:
    """What callbacks (early stopping) and the data module keep, each under its name."""

    def __init__(self, trainer: Any) -> None:  # noqa: ANN401 - Lightning's, half typed
        self._parts: dict[str, Any] = {one.state_key: one for one in trainer.callbacks}
        if trainer.datamodule is not None:
            self._parts[type(trainer.datamodule).__qualname__] = trainer.datamodule

    def state_dict(self) -> dict[str, Any]:
        """As Lightning keeps it in its own checkpoints."""
        return {name: part.state_dict() for name, part in self._parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As Lightning does: what has joined since has nothing to load."""
        for name, part in self._parts.items():
            if state.get(name):
                part.load_state_dict(state[name])


def _call_last(trainer: Any, resilience: Resilience) -> None:  # noqa: ANN401 - Lightning's, half typed
    # Not from the beginning: with enable_checkpointing=False Lightning refuses it there.
    if not any(isinstance(one, EpochEnd) for one in trainer.callbacks):
        trainer.callbacks.append(EpochEnd(resilience))


def _tell_of_hooks(trainer: Any) -> None:  # noqa: ANN401 - Lightning's, half typed
    # They are made to change Lightning's own checkpoint, which is not there.
    own = {LightningModule.on_save_checkpoint, Callback.on_save_checkpoint}
    for owner in (trainer.lightning_module, *trainer.callbacks):
        if type(owner).on_save_checkpoint not in own and trainer.is_global_zero:
            log.warning(
                "%s.on_save_checkpoint is not called: what it would add is not saved; keep it in "
                "a buffer, or in the state_dict of a callback or of the data module",
                type(owner).__name__,
            )
