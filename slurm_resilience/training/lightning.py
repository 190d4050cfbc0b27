"""
For Lightning's `Trainer`, in one process or with the strategy ddp:

    resilience = Resilience(Checkpoints("/fast/ckpt"))
    trainer = Trainer(callbacks=[resilience], enable_checkpointing=False, …)
    trainer.fit(model, data)

A loader that goes on in the midst of an epoch is a StatefulDataLoader (torchdata); another begins it
anew, and Lightning says so.
"""

# ruff: noqa: ARG002 - the signatures are Lightning's

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from slurm_resilience.training import rng
from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.choosing import Prefer
from slurm_resilience.training.run import Run
from slurm_resilience.training.sound import Loss


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
        state: dict[str, Any] = {"model": pl_module, "loops": Loops(trainer)}
        for number, optimizer in enumerate(trainer.optimizers):
            state[f"optimizer-{number}"] = optimizer
        for number, config in enumerate(trainer.lr_scheduler_configs):
            state[f"scheduler-{number}"] = config.scheduler
        state["precision"] = trainer.precision_plugin
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
            self._step(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """As after every other batch."""
        self._step(trainer)

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

    def _step(self, trainer: Trainer) -> None:
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
