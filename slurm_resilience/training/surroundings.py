"""
What happens around the saves of rank 0, beside the training: a word on a bad place, copies elsewhere.

Copies are made by a process of their own, `checkpoint copy`: neither its memory nor its threads are
the training's, and it ends when the training does, however that ends.
"""

import logging
import subprocess
import sys
import time

from slurm_resilience.checkpoint_files import place
from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.errors import CheckpointCopyError, CheckpointPlaceError
from slurm_resilience.plain import plain
from slurm_resilience.training.checkpoints import Checkpoints

log = logging.getLogger(__name__)

COMMAND = [sys.executable, "-m", "slurm_resilience", "checkpoint"]
NONE_THERE = 1
END_S = 5.0
"""For a copier that is told to end."""


def bring_back(checkpoints: Checkpoints) -> None:
    """
    Fetch the newest copy into the directory where that holds no checkpoint at all.

    Raises `CheckpointCopyError` where the storage cannot be asked or no copy in it is sound: to begin
    anew is then for a person to decide.
    """
    directory, url = checkpoints.path, checkpoints.copies
    if (
        url is None
        or not directory.parent.is_dir()
        or (directory.is_dir() and found(directory))
    ):
        return
    directory.mkdir(exist_ok=True)
    ended = subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, "fetch", url, str(directory)], capture_output=True, text=True, check=False
    )
    if ended.returncode == 0:
        log.warning("%s held no checkpoint: fetched %s", directory, ended.stdout.strip())
    elif ended.returncode != NONE_THERE:
        lines = ended.stderr.strip().splitlines() or ["it said nothing"]
        raise CheckpointCopyError(f"nothing fetched from {plain(url)}: {plain(lines[-1])}")


class Surroundings:
    """Of rank 0; made once the directory is ours."""

    def __init__(self, checkpoints: Checkpoints, start: int) -> None:
        """*start* is the first step to do."""
        self._checkpoints = checkpoints
        self._start = start
        self._since = time.monotonic()
        self._is_first = True
        self._copier: subprocess.Popen[bytes] | None = None
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
        if self._copier is not None and self._copier.poll() is not None:
            log.warning("copies: the copier ended (%d); begun again", self._copier.returncode)
            self._copy_on()

    def close(self) -> None:
        """No more copies; one under way is left without its manifest, and is none."""
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
            ),
            place.slowness(directory, took_s=manifest.took_s, interval_s=min(intervals)),
        ):
            if concern:
                log.warning("%s", concern)

    def _copy_on(self) -> None:
        checkpoints = self._checkpoints
        if checkpoints.copies is None:
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
