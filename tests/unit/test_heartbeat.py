"""The heartbeat file between a rank and the agent on its node."""

import os
from pathlib import Path

import pytest

from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.watch.heartbeat import (
    SIZE,
    Heartbeat,
    Phase,
    Stop,
    read_beat,
    write_stop,
)


def test_the_agent_reads_what_the_rank_wrote(tmp_path: Path) -> None:
    """Step, phase, pid and times arrive; `changed` moves only with step or phase."""
    heartbeat = Heartbeat(tmp_path, rank=3, local_rank=1)
    heartbeat.beat(7, Phase.STEP, saved_step=5, now=10.0)
    heartbeat.beat(7, Phase.STEP, saved_step=5, now=11.0)

    beat = read_beat(heartbeat.path)

    assert (3, 1, os.getpid(), 7, Phase.STEP, 5) == beat[:6]
    assert (beat.changed, beat.written) == (10.0, 11.0)


def test_the_rank_sees_the_stop_word(tmp_path: Path) -> None:
    """A notice travels through the file, without a signal."""
    heartbeat = Heartbeat(tmp_path, rank=0, local_rank=0)
    heartbeat.beat(1, Phase.STEP, saved_step=-1, now=1.0)
    seen = [heartbeat.stop]

    write_stop(heartbeat.path, Stop.SAVE_AND_STOP)
    seen.append(heartbeat.stop)
    heartbeat.beat(2, Phase.STEP, saved_step=-1, now=2.0)
    seen.append(heartbeat.stop)

    assert seen == [Stop.GO_ON, Stop.SAVE_AND_STOP, Stop.SAVE_AND_STOP]


@pytest.mark.parametrize("harm", ["empty", "torn", "link", "huge", "pipe", "gone", "phase"])
def test_a_file_that_is_no_heartbeat_is_refused(tmp_path: Path, harm: str) -> None:
    """A torn, linked, resized or missing file is an error that names it, never a beat."""
    heartbeat = Heartbeat(tmp_path, rank=0, local_rank=0)
    heartbeat.beat(1, Phase.STEP, saved_step=-1, now=1.0)
    path = heartbeat.path
    if harm == "empty":
        path.write_bytes(bytes(SIZE))
    elif harm == "torn":
        with path.open("r+b") as file:
            file.seek(8)
            file.write(b"\x01")
    elif harm == "phase":
        with path.open("r+b") as file:
            file.seek(16 + 4 * 8)
            file.write(b"\x63")
    elif harm == "huge":
        os.truncate(path, 1 << 30)
    else:
        path.rename(tmp_path / "elsewhere")
        if harm == "link":
            path.symlink_to(tmp_path / "elsewhere")
        elif harm == "pipe":
            os.mkfifo(path)

    with pytest.raises(UntrustedFileError, match=r"rank-0\.beat"):
        read_beat(path)
