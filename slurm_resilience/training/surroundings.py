"""
What happens around the saves of rank 0, beside the training: a word on a bad place, copies elsewhere.

Copies are made by a process of their own, `checkpoint copy`: neither its memory nor its threads are
the training's, and it ends when the training does, however that ends.
"""

import logging
import subprocess
import threading
import time

from slurm_resilience.checkpoint_files import place
from slurm_resilience.checkpoint_files.listing import directory_name, found
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.errors import CheckpointPlaceError
from slurm_resilience.training.bringing import COMMAND
from slurm_resilience.training.checkpoints import Checkpoints

log = logging.getLogger(__name__)

END_S = 5.0
"""For a copier that is told to end."""


class Surroundings:
    """Of a rank that leads; made once the directory is ours."""

    def __init__(self, checkpoints: Checkpoints, start: int, *, part: str = "") -> None:
        """
        *start* is the first step to do; *part* the folder among the copies for what this node holds
        of each checkpoint, empty: it holds whole ones.
        """
        self._checkpoints = checkpoints
        self._start = start
        self._part = part
        self._copied_at = 0.0
        self._since = time.monotonic()
        self._is_first = True
        self._copier: subprocess.Popen[bytes] | None = None
        self._copying = threading.Lock()
        self._is_closed = False
        try:
            looked = place.look(checkpoints.path, checkpoints.data_path)
        except OSError as error:
            raise CheckpointPlaceError(f"{error.filename}: {error.strerror}") from error
        for concern in place.concerns(looked):
            log.warning("%s", concern)
        self._copy_on()

    def saved(self, manifest: Manifest) -> None:
        """Take note of a save; in the thread that wrote it."""
        if self._is_first:
            self._is_first = False
            try:
                self._judge(manifest)
            except (
                OSError,
                CheckpointPlaceError,
            ) as error:  # deleted meanwhile; the save counts
                log.warning("%s cannot be judged: %s", self._checkpoints.path, error)
        try:
            with self._copying:
                if not self._is_closed:
                    self._copy(manifest)
        except OSError as error:  # no process more, for now: tried again after the next save
            log.warning("copies: the copier cannot be begun: %s", error)

    def close(self) -> None:
        """No more copies; one under way is left without its manifest, and is none."""
        with self._copying:
            self._is_closed = True
        if self._copier is None:
            return
        if self._copier.stdin:
            self._copier.stdin.close()
        self._copier.terminate()
        try:
            self._copier.wait(END_S)
        except subprocess.TimeoutExpired:
            self._copier.kill()
            self._copier.wait()
        self._copier = None

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

    def _copy(self, manifest: Manifest) -> None:
        if self._part:
            self._copy_part(manifest)
        elif self._copier is not None and self._copier.poll() is not None:
            log.warning("copies: the copier ended (%d); begun again", self._copier.returncode)
            self._copy_on()

    def _copy_on(self) -> None:
        checkpoints = self._checkpoints
        if checkpoints.copies is None or self._part:
            return
        self._copier = subprocess.Popen(  # noqa: S603 - our own command
            [
                *COMMAND, "copy", str(checkpoints.path), checkpoints.copies,
                f"--every-minutes={checkpoints.copy_every_minutes}",
                f"--keep={checkpoints.keep_copies}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def _copy_part(self, manifest: Manifest) -> None:
        """
        Copy this node's part of a save that is due for it.

        All nodes choose the same saves without a word: by what their manifests say alike.
        """
        checkpoints, url = self._checkpoints, self._checkpoints.copies
        wait_s = checkpoints.copy_every_minutes * 60
        if url is None or manifest.poison or manifest.saved_at < self._copied_at + wait_s:
            return
        self._copied_at = manifest.saved_at
        if self._copier is not None and self._copier.poll() != 0:
            how = self._copier.returncode
            log.warning("copies: the last was %s", "not done" if how is None else "not made")
            if how is None:
                return
        self._copier = subprocess.Popen(  # noqa: S603 - our own command
            [
                *COMMAND, "copy", str(checkpoints.path / directory_name(manifest.step)),
                f"{url}/{self._part}", f"--keep={checkpoints.keep_copies}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
