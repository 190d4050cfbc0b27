"""What the sampler last said of this node's hardware; it may never answer, and is not waited for."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence

import msgspec

from slurm_resilience.watch.facts import GpuFacts
from slurm_resilience.watch.messages import LineError, Lines

MOST_BYTES = 1 << 20
DEADLINE_S = 15.0
"""For the driver, from when it is asked."""
START_S = 120.0
"""For the sampler to start, and to read all else: on a node with too much to do, or from a file
system that is slow, that takes long and is no fault of the driver."""
LATE_S = 2.0
"""An agent that looks less often does not get to run: then neither does the sampler."""
SAMPLER = (sys.executable, "-m", "slurm_resilience.watch.sampler")
KILLED_S = 1.0
CHUNK = 1 << 16


class Sample(msgspec.Struct, frozen=True):
    """What the hardware says; fields as in `facts.NodeFacts`."""

    gpus: tuple[GpuFacts, ...] | None = None
    links: dict[str, str] = {}
    events: tuple[str, ...] = ()
    unread: dict[str, str] = {}
    is_driver_mute: bool = False


class Hardware:
    """Asks the sampler every so often."""

    def __init__(self, every_s: float, command: Sequence[str] = SAMPLER) -> None:
        self._every_s = every_s
        self._waits = False
        self.is_driver_asked = False
        """Whether the driver has the word, as the sampler says."""
        self._next_at = self._answer_by = self._looked_at = 0.0
        self._lines = Lines(MOST_BYTES)
        self.newest = Sample()
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    @property
    def pid(self) -> int | None:
        """The sampler's process, None when it was given up."""
        return self._process.pid if self._process else None

    def tick(self, now: float) -> None:
        """Take an answer in; ask again when it is time."""
        if self._process is None:
            return
        if now - self._looked_at > LATE_S and self.is_driver_asked:
            self._answer_by = now + DEADLINE_S
        self._looked_at = now
        try:
            if self._waits:
                self._take(now)
            if not self._waits and now >= self._next_at:
                self._ask()
                self._next_at = now + self._every_s
                self._answer_by = now + START_S
        except (OSError, LineError, msgspec.DecodeError) as error:
            self._give_up(str(error))
        if self._waits and now > self._answer_by:
            is_mute = self.is_driver_asked
            self._give_up(
                "the driver does not answer" if is_mute else "the sampler is not heard"
            )
            self.newest = msgspec.structs.replace(self.newest, is_driver_mute=is_mute)

    def hurry(self) -> None:
        """Ask at the next tick."""
        self._next_at = 0.0

    @property
    def is_asked(self) -> bool:
        """Whether an answer is still to come."""
        return self._process is not None and (self._waits or not self._next_at)

    def close(self) -> None:
        """Let the sampler go."""
        if self._process is not None:
            self._give_up("closed")

    def _ask(self) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.write(b"\n")
            self._waits, self.is_driver_asked = True, False

    def _take(self, now: float) -> None:
        process = self._process
        if process is None or process.stdout is None:
            return
        data = process.stdout.read(CHUNK)
        if data is None:
            return
        if not data:
            raise LineError("the sampler ended")
        for line in self._lines.feed(data):
            if line:
                self.newest = msgspec.json.decode(line, type=Sample)
                self._waits = self.is_driver_asked = False
            else:
                self.is_driver_asked, self._answer_by = True, now + DEADLINE_S

    def _give_up(self, why: str) -> None:
        process, self._process, self._waits = self._process, None, False
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            # One that hangs in the driver does not die of KILL, and is left behind.
            process.wait(timeout=KILLED_S)
        self.newest = msgspec.structs.replace(
            self.newest, gpus=None, unread={**self.newest.unread, "hardware": why}
        )
