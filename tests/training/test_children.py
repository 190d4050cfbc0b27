"""A notice to a whole process group: the rank saves, its children live through it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.watch.heartbeat import (
    DIRECTORY_VARIABLE,
    Stop,
    beat_path,
    read_beat,
    write_stop,
)
from tests.training.ranks import wait_for

LOADER = """
import sys, time
from pathlib import Path
import torch
from torch.utils.data import DataLoader, Dataset
from slurm_resilience.training import Checkpoints, Run, outlive_notice

class Numbers(Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, number):
        time.sleep(0.001)
        return number

if __name__ == "__main__":
    folder, method = Path(sys.argv[1]), sys.argv[2]
    loader = DataLoader(
        Numbers(), batch_size=4, num_workers=2, persistent_workers=True,
        multiprocessing_context=method, worker_init_fn=outlive_notice,
    )
    run = Run(checkpoints=Checkpoints(folder / "c"), state={"n": 1})
    step = run.restore()
    batches = iter(loader)
    while not run.step(step):
        next(batches)
        step += 1
        if step == 3:
            (folder / "running").touch()
    for _ in range(50):
        next(batches)
    run.finish()
    print("stopped after", step)
"""

FORKED = """
import multiprocessing, os, signal, sys, time
from pathlib import Path
from slurm_resilience.training import Checkpoints, Run

def work(connection):
    while True:
        connection.send(connection.recv() + 1)

folder = Path(sys.argv[1])
checkpoints = Checkpoints(folder / "c", every_steps=10**9)
run = Run(checkpoints=checkpoints, state={"n": 1})
step = run.restore()
context = multiprocessing.get_context("fork")
mine, its = context.Pipe()
child = context.Process(target=work, args=(its,), daemon=True)
child.start()
while not run.step(step):
    mine.send(step)
    step = mine.recv()
    (folder / "running").touch()
time.sleep(float(sys.argv[2]))
mine.send(1)
print("the child answers", mine.recv())
late = context.Process(target=work, args=(its,), daemon=True)
late.start()
run.finish()
for one in (child, late):
    one.terminate()
    one.join(30)
print("ended by", child.exitcode, late.exitcode)
"""


def notified(script: str, folder: Path, option: str, signum: signal.Signals) -> str:
    """What *script* prints, its process group getting *signum* while it trains."""
    (folder / "script.py").write_text(script)
    process = subprocess.Popen(
        [sys.executable, str(folder / "script.py"), str(folder), option],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for((folder / "running").exists, within_s=60)
        os.killpg(process.pid, signum)
        said, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    return said


@pytest.mark.parametrize(
    ("method", "signum"),
    [("fork", signal.SIGTERM), ("fork", signal.SIGUSR2), ("spawn", signal.SIGTERM)],
)
def test_the_workers_of_a_data_loader_live_through_a_notice(
    tmp_path: Path, method: str, signum: signal.Signals
) -> None:
    """The rank gets its data to the end, saves once, and its workers do not hold its exit."""
    said = notified(LOADER, tmp_path, method, signum)

    assert "stopped after" in said
    [entry] = found(tmp_path / "c")
    assert entry.manifest
    assert said.splitlines()[-1] == f"stopped after {entry.manifest.step}"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR2])
def test_a_forked_child_lives_through_a_notice_and_ends_when_its_parent_says(
    tmp_path: Path, signum: signal.Signals
) -> None:
    """One that was there, and one forked later, which the notice never reached."""
    said = notified(FORKED, tmp_path, "1.5", signum)

    assert "the child answers 2" in said
    assert f"ended by {-signal.SIGTERM} {-signal.SIGTERM}" in said
    assert len(found(tmp_path / "c")) == 1


def has_done(beats: Path, step: int) -> bool:
    """Whether the rank has done *step*."""
    try:
        return read_beat(beat_path(beats, 0)).step >= step
    except UntrustedFileError:
        return False


def test_workers_live_through_a_sigterm_that_their_rank_was_made_to_ignore(
    tmp_path: Path,
) -> None:
    """Under an agent the notice is the stop word; what Slurm sends to every process is not."""
    (tmp_path / "beats").mkdir()
    (tmp_path / "script.py").write_text(LOADER)
    ignoring = "import os, signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    process = subprocess.Popen(
        [sys.executable, "-c", f"{ignoring} os.execv(sys.executable, sys.argv[1:])",
         sys.executable, str(tmp_path / "script.py"), str(tmp_path), "fork"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, DIRECTORY_VARIABLE: str(tmp_path / "beats")},
    )  # fmt: skip
    try:
        wait_for((tmp_path / "running").exists, within_s=60)
        os.killpg(process.pid, signal.SIGTERM)
        reached = read_beat(beat_path(tmp_path / "beats", 0)).step
        wait_for(lambda: has_done(tmp_path / "beats", reached + 20))
        write_stop(beat_path(tmp_path / "beats", 0), Stop.SAVE_AND_STOP)
        said, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    assert process.returncode == 0, said
    assert said.splitlines()[-1].startswith("stopped after")


def open_files() -> set[str]:
    """This process's."""
    return {link.name for link in Path("/proc/self/fd").iterdir()}


def test_where_an_event_loop_hears_the_signals_nothing_stays_open(tmp_path: Path) -> None:
    """The loop needs them more than our children; it has them afterwards as before."""
    loop, heard = asyncio.new_event_loop(), []

    def hear() -> None:
        heard.append(signal.SIGUSR1)
        loop.stop()

    loop.add_signal_handler(signal.SIGUSR1, hear)
    before = open_files()

    Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1}).close()

    assert open_files() == before
    loop.call_later(30, loop.stop)
    os.kill(os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    loop.close()
    assert heard == [signal.SIGUSR1]
