"""
Copies elsewhere, beside the training, of the saves of a rank that leads.

Made by a process of its own, `checkpoint copy`: neither its memory nor its threads are the
training's, and it ends when the training does, however that ends.
"""

import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from slurm_resilience.checkpoint_files.keep import is_poisoned
from slurm_resilience.checkpoint_files.listing import Found, directory_name, found, step_of
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.checkpoint_files.place import spelled
from slurm_resilience.errors import CheckpointCopyError, CheckpointError
from slurm_resilience.plain import plain
from slurm_resilience.training.checkpoints import Checkpoints
from slurm_resilience.training.peers import Peers
from slurm_resilience.training.saver import Saver

log = logging.getLogger(__name__)

COMMAND = [sys.executable, "-m", "slurm_resilience", "checkpoint"]
END_S = 5.0
"""For a process that is told to end."""
LOOK_S = 2.0
"""Of a copy that is done sooner, nothing is said."""


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

    def finish(self, saved_step: int, is_told: Callable[[], bool]) -> None:
        """
        Copy the newest checkpoint up to *saved_step*, after what is under way: the training has ended.

        Raises `CheckpointCopyError` where that fails, or *is_told* to stop meanwhile.
        """
        url, newest = self._checkpoints.copies, self._newest(saved_step)
        if url is None or newest is None or newest.manifest is None:
            return
        with self._turn:
            self._is_closed = True
        size = spelled(newest.manifest.size_bytes)
        what = f"step {newest.manifest.step} ({size}) to {plain(url)}"
        if self._process:
            self._ended(self._process, what, is_told)
        source = newest.path if self._part else self._checkpoints.path
        place = f"{url}/{self._part}" if self._part else url
        last = self._begin(source, place, errors=subprocess.PIPE)
        said = self._ended(last, what, is_told)
        if last.returncode != 0:
            raise CheckpointCopyError(plain(said[-1]) if said else f"status {last.returncode}")
        for line in said:
            log.warning("copies: %s", plain(line))

    def close(self) -> None:
        """No more copies; one under way is left without its manifest, and is none."""
        with self._turn:
            self._is_closed = True
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stderr):
            if pipe:
                pipe.close()
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

    def _newest(self, saved_step: int) -> Found | None:
        """Without poison: of parts the same on all nodes."""
        for entry in found(self._checkpoints.path):
            if 0 <= step_of(entry) <= saved_step and not is_poisoned(entry):
                return entry
        return None

    def _begin(
        self, source: Path, url: str, *options: str, errors: int | None = None
    ) -> "subprocess.Popen[bytes]":
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [
                *COMMAND, "copy", str(source), url,
                f"--keep={self._checkpoints.keep_copies}", *options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )  # fmt: skip
        return self._process

    def _ended(
        self, process: "subprocess.Popen[bytes]", what: str, is_told: Callable[[], bool]
    ) -> list[str]:
        """The lines that it left, once it has ended."""
        is_said = False
        while True:
            try:
                # Closes its standard input first: one that goes on ends after the copy under way.
                _, errors = process.communicate(timeout=LOOK_S)
                return (errors or b"").decode(errors="replace").strip().splitlines()
            except subprocess.TimeoutExpired:  # noqa: PERF203 - once in two seconds
                if is_told():
                    raise CheckpointCopyError("told to stop meanwhile") from None
                if not is_said:
                    log.warning("copies: finish() waits until %s is copied", what)
                is_said = True


def copy_last(
    copier: Copier | None, saver: Saver, peers: Peers, is_told: Callable[[], bool]
) -> None:
    """
    Have the newest checkpoint copied at the end of a training; where that fails, say so.

    Every rank has to come here, and stays until it is done: none waits for others in the script's
    next collective.
    """

    def copy() -> None:
        if copier and saver.following.ended():  # which may begin a copy itself
            copier.finish(saver.saved_step, is_told)

    try:
        peers.each_at_length(copy)
    except CheckpointError as error:
        level = peers.log_level(logging.WARNING)
        log.log(level, "copies: that of the last checkpoint is not made: %s", error)
