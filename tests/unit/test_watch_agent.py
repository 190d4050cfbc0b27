"""A real agent with a real rank under it, told what to do over a real line."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_resilience.launch.hub import Hub, Said
from slurm_resilience.watch.assignment import Assignment, to_environment
from slurm_resilience.watch.messages import Exited, Order
from slurm_resilience.watch.settings import WatchSettings

RANK = """
import os, signal, sys, time
from pathlib import Path
from slurm_resilience.watch.heartbeat import DIRECTORY_VARIABLE, Heartbeat, Phase, Stop
signal.signal(signal.SIGTERM, lambda *_: Path("asked").touch())
heartbeat = Heartbeat(Path(os.environ[DIRECTORY_VARIABLE]), rank=0, local_rank=0)
heartbeat.beat(1, Phase.STEP, saved_step=-1, now=time.monotonic())
Path("pid").write_text(str(os.getpid()))
while heartbeat.stop is Stop.GO_ON:
    time.sleep(0.01)
Path("saved").touch()
time.sleep(600)
"""
"""It heeds no TERM, as a rank in a collective does, and saves when it is told to stop."""
SOON_S = 20.0


class Watched:
    """An agent, and the supervisor's end of its line."""

    def __init__(self, folder: Path, *, grace_s: float) -> None:
        self.folder = folder
        self.hub = Hub("secret")
        self.exited: Exited | None = None
        settings = WatchSettings(grace_s=grace_s)
        assignment = Assignment("7", 0, 1, "secret", self.hub.port, 2, "", settings=settings)
        place = {
            "SLURMD_NODENAME": "n1",
            "SLURM_NODEID": "0",
            "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        }
        words = [sys.executable, "-m", "slurm_resilience", "agent", "--"]
        self.agent = subprocess.Popen(
            [*words, sys.executable, "-c", RANK],
            env={**os.environ, **place, **to_environment(assignment)},
            cwd=folder,
        )
        self.until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())

    def until(self, what: Callable[[], object]) -> None:
        deadline = time.monotonic() + SOON_S
        while not what():
            assert time.monotonic() < deadline
            for event in self.hub.tick(time.monotonic(), 0.02):
                if isinstance(event, Said) and isinstance(event.message, Exited):
                    self.exited = event.message

    def close(self) -> None:
        try:
            self.hub.say(Order("kill"))
            self.until(lambda: self.agent.poll() is not None)
        finally:
            self.hub.close()
            self.agent.kill()
            self.agent.wait(timeout=SOON_S)


@pytest.fixture
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path, grace_s=request.param)
    yield watched
    watched.close()


@pytest.mark.parametrize("watched", [600.0], indirect=True)
@pytest.mark.parametrize("asked", [False, True])
def test_ranks_that_are_stuck_are_killed_at_once(watched: Watched, *, asked: bool) -> None:
    """No TERM and no grace, also where they have been asked in good order before."""
    if asked:
        watched.hub.say(Order("end"))
        watched.until((watched.folder / "asked").exists)

    watched.hub.say(Order("kill"))
    watched.until(lambda: watched.exited)

    assert watched.exited is not None
    assert watched.exited.status == 128 + signal.SIGKILL
    assert (watched.folder / "asked").exists() is asked


@pytest.mark.parametrize("watched", [3.0], indirect=True)
def test_ranks_that_are_being_ended_do_not_begin_to_save(watched: Watched) -> None:
    """Slurm's SIGTERM to the step comes after the end was ordered: it is no notice any more."""
    watched.hub.say(Order("end"))
    watched.until((watched.folder / "asked").exists)

    watched.agent.send_signal(signal.SIGTERM)
    watched.until(lambda: watched.exited)

    assert not (watched.folder / "saved").exists()
