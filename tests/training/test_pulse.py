"""What the agent sees of a rank that is stuck, or that died."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.watch.heartbeat import (
    DIRECTORY_VARIABLE,
    STACK_SIGNAL,
    Phase,
    beat_path,
    error_path,
    read_beat,
    stack_path,
)
from tests.training.ranks import wait_for

PRELUDE = """
import sys, threading
from slurm_resilience.training import Checkpoints, Phase, Run
run = Run(checkpoints=Checkpoints(sys.argv[1]), state={"n": 1})
run.step(run.restore())
"""
STUCK = f"""{PRELUDE}
def the_line_it_hangs_on():
    threading.Event().wait()
with run.phase(Phase.EVAL):
    the_line_it_hangs_on()
"""
RAISES = f"""{PRELUDE}
def loss_of(batch):
    raise ValueError("expected 64 classes, got 65")
loss_of(None)
"""


def started(script: str, folder: Path) -> subprocess.Popen[str]:
    """A rank that runs *script* with its heartbeats in *folder*."""
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder / "c")],
        env={**os.environ, DIRECTORY_VARIABLE: str(folder)},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def phase_of(folder: Path) -> Phase | None:
    """What rank 0 says it does."""
    try:
        return read_beat(beat_path(folder, 0)).phase
    except UntrustedFileError:
        return None


def test_the_stack_of_a_stuck_rank_names_the_line(tmp_path: Path) -> None:
    """On the agent's signal the stack of every thread lands in its file, and the rank lives on."""
    process = started(STUCK, tmp_path)
    try:
        wait_for(lambda: phase_of(tmp_path) is Phase.EVAL)
        process.send_signal(STACK_SIGNAL)

        stacks = stack_path(tmp_path, 0)
        wait_for(lambda: "the_line_it_hangs_on" in stacks.read_text())
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_the_exception_that_ended_a_rank_is_left_for_the_verdict(tmp_path: Path) -> None:
    """Type, message and lines; the traceback still goes to standard error."""
    process = started(RAISES, tmp_path)

    _, said = process.communicate(timeout=60)

    left = json.loads(error_path(tmp_path, 0).read_bytes())
    assert (left["type"], left["message"]) == ("ValueError", "expected 64 classes, got 65")
    assert left["frames"][-1]["function"] == "loss_of"
    assert "ValueError: expected 64 classes, got 65" in said
    assert process.returncode == 1


def vanished(folder: Path) -> None:
    folder.rmdir()


def with_a_folder_in_the_way(folder: Path) -> None:
    error_path(folder, 0).mkdir()


@pytest.mark.parametrize("broken", [vanished, with_a_folder_in_the_way])
def test_heartbeats_that_cannot_be_written_end_no_training(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: Callable[[Path], None],
) -> None:
    """Training goes on without a heartbeat, and says so: other ranks may have theirs."""
    folder = tmp_path / "beats"
    folder.mkdir()
    broken(folder)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(folder))

    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1})
    run.step(run.restore())
    run.finish()

    assert "no heartbeat" in caplog.text
