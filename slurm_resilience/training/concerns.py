"""Words in the log on a bad place for checkpoints; nothing is refused for it."""

import logging
import time

from slurm_resilience.checkpoint_files import place
from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.errors import CheckpointPlaceError
from slurm_resilience.training.checkpoints import Checkpoints

log = logging.getLogger(__name__)


class Concerns:
    """Of a rank that leads: what can be said at once, and what only after the first save."""

    def __init__(self, checkpoints: Checkpoints, start: int) -> None:
        """
        *start* is the first step to do. Raises `CheckpointPlaceError` where the directory cannot be
        looked at.
        """
        self._checkpoints = checkpoints
        self._start = start
        self._since = time.monotonic()
        self._is_first = True
        try:
            looked = place.look(checkpoints.path, checkpoints.data_path)
        except OSError as error:
            raise CheckpointPlaceError(f"{error.filename}: {error.strerror}") from error
        for concern in place.concerns(looked):
            log.warning("%s", concern)

    def saved(self, manifest: Manifest) -> None:
        """Take note of a save; in the thread that wrote it."""
        if not self._is_first:
            return
        self._is_first = False
        try:
            self._judge(manifest)
        except (OSError, CheckpointPlaceError) as error:  # deleted meanwhile; the save counts
            log.warning("%s cannot be judged: %s", self._checkpoints.path, error)

    def _judge(self, manifest: Manifest) -> None:
        directory, due = self._checkpoints.path, self._checkpoints.due
        worked_s = time.monotonic() - self._since - manifest.took_s
        step_s = worked_s / max(1, manifest.step + 1 - self._start)
        intervals = [due.every_s] if due.every_s else []
        intervals += [due.every_steps * step_s] if due.every_steps else []
        held_bytes = sum(
            entry.manifest.size_bytes for entry in found(directory) if entry.manifest
        )
        for concern in (
            place.lack_of_room(
                place.look(directory),
                keep=self._checkpoints.keep,
                size_bytes=manifest.size_bytes,
                held_bytes=held_bytes,
                copies=self._checkpoints.copies is not None,
            ),
            place.slowness(directory, took_s=manifest.took_s, interval_s=min(intervals)),
        ):
            if concern:
                log.warning("%s", concern)
