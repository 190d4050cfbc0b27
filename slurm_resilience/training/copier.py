"""
Copies elsewhere, beside the training, of the saves of a rank that leads.

Made by a process of its own, `checkpoint copy`: neither its memory nor its threads are the
training's, and it ends when the training does, however that ends.
"""

import logging
import subprocess
import sys
import threading
from pathlib import Path

from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.training.checkpoints import Checkpoints

log = logging.getLogger(__name__)

COMMAND = [sys.executable, "-m", "slurm_resilience", "checkpoint"]
END_S = 5.0
"""For a process that is told to end."""


class Copier:
    """One process that goes on; or, where the nodes hold parts, one for each copy of a part."""

    def __init__(self, checkpoints: Checkpoints, *, part: str = "") -> None:
        """
        To be made once the directory is ours. *part*: the folder among the copies for what this
        node holds of each checkpoint, empty: it holds whole ones.
        """
        self._checkpoints = checkpoints
        self._part = part
        self._copied_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()
        self._is_closed = False
        if checkpoints.copies and not part:
            self._go_on(checkpoints.copies)

    def saved(self, manifest: Manifest) -> None:
        """Take note of a save; in the thread that wrote it."""
        url = self._checkpoints.copies
        if url is None:
            return
        try:
            with self._turn:
                if not self._is_closed:
                    self._copy(manifest, url)
        except OSError as error:  # no process more, for now: tried again after the next save
            log.warning("copies: the copier cannot be begun: %s", error)

    def close(self) -> None:
        """No more copies; one under way is left without its manifest, and is none."""
        with self._turn:
            self._is_closed = True
        if self._process is None:
            return
        if self._process.stdin:
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _copy(self, manifest: Manifest, url: str) -> None:
        if self._part:
            self._copy_part(manifest, f"{url}/{self._part}")
        elif self._process is not None and self._process.poll() is not None:
            log.warning("copies: the copier ended (%d); begun again", self._process.returncode)
            self._go_on(url)

    def _go_on(self, url: str) -> None:
        every = f"--every-minutes={self._checkpoints.copy_every_minutes}"
        self._begin(self._checkpoints.path, url, every)

    def _copy_part(self, manifest: Manifest, url: str) -> None:
        """
        Copy this node's part of a save that is due for it.

        All nodes choose the same saves without a word: by what their manifests say alike.
        """
        wait_s = self._checkpoints.copy_every_minutes * 60
        if manifest.poison or manifest.saved_at < self._copied_at + wait_s:
            return
        self._copied_at = manifest.saved_at
        if self._process is not None and self._process.poll() != 0:
            how = self._process.returncode
            log.warning("copies: the last was %s", "not done" if how is None else "not made")
            if how is None:
                return
        self._begin(self._checkpoints.path / directory_name(manifest.step), url)

    def _begin(self, source: Path, url: str, *options: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [
                *COMMAND, "copy", str(source), url,
                f"--keep={self._checkpoints.keep_copies}", *options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
