"""The example as a user runs it, with python and with torchrun."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.watch.heartbeat import (
    DIRECTORY_VARIABLE,
    Stop,
    beat_path,
    read_beat,
    write_stop,
)
from tests.training.ranks import wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "train.py"
TORCHRUN = Path(sysconfig.get_path("scripts")) / "torchrun"
ALONE = [sys.executable]
TWO_RANKS = [str(TORCHRUN), "--standalone", "--nproc-per-node=2"]


def started(
    launcher: list[str], folder: Path, *options: str, beats: Path | None = None
) -> subprocess.Popen[str]:
    """The example, training into *folder*."""
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if beats:
        beats.mkdir()
        environment[DIRECTORY_VARIABLE] = str(beats)
    return subprocess.Popen(
        [*launcher, str(EXAMPLE), "--steps=40", f"--checkpoints={folder / 'c'}", *options],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def result(process: subprocess.Popen[str], out: Path) -> dict[str, object]:
    """What an example that ended well has written."""
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    document: dict[str, object] = json.loads(out.read_text(encoding="utf-8"))
    return document


def is_at(beats: Path, rank: int, step: int) -> bool:
    """Whether a rank has done *step*."""
    try:
        return read_beat(beat_path(beats, rank)).step >= step
    except UntrustedFileError:
        return False


@pytest.mark.parametrize(
    ("launcher", "options"),
    [(ALONE, []), (TWO_RANKS, []), (TWO_RANKS, ["--shard"])],
    ids=["python", "torchrun, two ranks", "torchrun, sharded"],
)
def test_a_training_stopped_and_resumed_ends_bit_equal(
    tmp_path: Path, launcher: list[str], options: list[str]
) -> None:
    """Stopped by a notice it exits 0 without a result; resumed it ends as if never stopped."""
    out, beats = tmp_path / "out.json", tmp_path / "beats"
    other_out = tmp_path / "undisturbed.json"
    undisturbed = started(launcher, tmp_path / "one", f"--out={other_out}", *options)
    process = started(
        launcher, tmp_path / "two", f"--out={out}", "--step-seconds=0.05", *options, beats=beats
    )  # fmt: skip
    wait_for(lambda: is_at(beats, 0, 7), within_s=60)
    write_stop(beat_path(beats, 0), Stop.SAVE_AND_STOP)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "/40, saved" in said.splitlines()[-1]
    assert "finished" not in said
    assert not out.exists()
    assert len(list((tmp_path / "two" / "c").glob("step-*"))) == 1

    again = started(launcher, tmp_path / "two", f"--out={out}", *options)

    assert result(again, out) == result(undisturbed, other_out)
    assert (tmp_path / "two" / "c" / directory_name(39)).is_dir()
