"""What follows a save that is whole: older checkpoints go, copies begin, the quarantine is thinned out."""

import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from pathlib import Path

from slurm_resilience.checkpoint_files import keep
from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.checkpoint_files.quarantine import thin_out
from slurm_resilience.errors import CheckpointError
from slurm_resilience.training.beside import beside
from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.claiming import Hold

log = logging.getLogger(__name__)


class Following:
    """
    Of a rank that leads; one save after the other, beside the training and beside its next step.

    The memory of a save is free before: to delete a large checkpoint can take a network file system
    longer than to write one.
    """

    def __init__(self, checkpoints: Checkpoints, hold: Hold, unsound: Collection[Path]) -> None:
        """*unsound*: checkpoints that neither count nor go."""
        self.on_saved: list[Callable[[Manifest], None]] = []
        """Called for each save that was read back."""
        self._directory, self._keep = checkpoints.path, checkpoints.keep
        self._claim = hold.claim
        self._unsound = unsound
        self._work: Future[None] | None = None
        self._thinning: Future[frozenset[Path]] | None = None

    def begin(self, manifest: Manifest) -> None:
        """Let follow what follows this save; the one before has to have ended."""
        self._work = beside(lambda: self._follow(manifest))

    def ended(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is under way; whether that came within *timeout_s*."""
        return self._work is None or not wait([self._work], timeout_s).not_done

    def _follow(self, manifest: Manifest) -> None:
        """Nothing of it makes the save a failed one."""
        try:
            self._prune()
            for call in self.on_saved:
                call(manifest)
            self._thin_out()
        except Exception:
            log.exception("step %d is saved, but what follows a save failed", manifest.step)

    def _thin_out(self) -> None:
        """In a thread of its own, which neither the next save nor the end waits for."""
        if self._thinning and not self._thinning.done():
            return
        known = self._thinning.result() if self._thinning else frozenset[Path]()
        self._thinning = beside(lambda: thin_out(self._directory, known=known))

    def _prune(self) -> None:
        try:
            if self._claim:
                self._claim.confirm()
            going = keep.superfluous(
                found(self._directory), keep=self._keep, unsound=self._unsound
            )
        except CheckpointError as error:
            log.warning("no old checkpoint is removed: %s", error)
            return
        for path in going:
            try:
                keep.remove(path)
            except OSError as error:  # noqa: PERF203 - one that cannot go would keep all later ones
                log.warning("%s cannot be removed: %s", path, error.strerror)
