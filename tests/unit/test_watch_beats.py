"""The agent's side of heartbeat files, stacks and a command's output."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_resilience.errors import LaunchError
from slurm_resilience.watch.beats import LOCK, kept, rank_facts
from slurm_resilience.watch.heartbeat import Heartbeat, Phase, Stop
from slurm_resilience.watch.output import MOST_LINES, MOST_TAIL_BYTES, Relay, Tail
from slurm_resilience.watch.processes import read_process

AGENTS = """
import sys
from pathlib import Path
from slurm_resilience.watch.beats import LOCK, kept
for _ in range(60):
    with kept(Path(sys.argv[1])) as beats:
        (beats.directory / "rank-0.beat").touch()
"""


def mine(tmp_path: Path, name: str = "7-0") -> Path:
    return tmp_path / f"slurm-resilience-{os.geteuid()}-{name}"


def beating(directory: Path, rank: int) -> Heartbeat:
    heartbeat = Heartbeat(directory, rank=rank, local_rank=rank)
    heartbeat.beat(5, Phase.STEP, saved_step=-1, now=10.0)
    return heartbeat


def test_ranks_are_read_and_told_to_stop(tmp_path: Path) -> None:
    """Each rank with what the kernel says of its process; the stop word reaches every one."""
    with kept(tmp_path) as beats:
        ranks = [beating(beats.directory, number) for number in (1, 0)]

        found = [rank_facts(beat, read_process(beat.pid), 12.5) for beat in beats.read()]
        beats.stop()

        assert [(rank.rank, rank.step, rank.phase, rank.age_s) for rank in found] == [
            (0, 5, "step", 2.5),
            (1, 5, "step", 2.5),
        ]
        assert found[0].state in {"R", "S"}
        assert [rank.stop for rank in ranks] == [Stop.SAVE_AND_STOP] * 2
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_heartbeat_is_left_out_and_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Torn, linked or huge: the other ranks are read, and one line says which was not."""
    with kept(tmp_path) as beats, caplog.at_level(logging.WARNING):
        beating(beats.directory, 0)
        (beats.directory / "rank-1.beat").symlink_to("/etc/passwd")
        huge = beats.directory / "rank-2.beat"
        huge.touch()
        os.truncate(huge, 1 << 30)
        for path in beats.directory.iterdir():
            os.utime(path, (1.0, 1.0), follow_symlinks=False)

        found = [beats.read(), beats.read()]

    assert [[beat.rank for beat in each] for each in found] == [[0], [0]]
    assert sorted(record.message.split("rank-")[1][0] for record in caplog.records) == [
        "1",
        "2",
    ]


def test_a_name_that_somebody_else_took_is_in_nobodys_way(tmp_path: Path) -> None:
    """A link or a file in the place of a directory is neither used, followed nor removed."""
    elsewhere, target = tmp_path / "elsewhere", tmp_path / "target"
    elsewhere.mkdir()
    target.write_text("precious")
    (elsewhere / LOCK).symlink_to(target)
    mine(tmp_path, "8-0").symlink_to(elsewhere)
    mine(tmp_path, "9-0").touch()

    with kept(tmp_path) as beats:
        assert beats.directory.stat().st_mode & 0o777 == 0o700

    assert mine(tmp_path, "8-0").is_symlink()
    assert mine(tmp_path, "9-0").exists()
    assert target.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """What another user made under our prefix may hold a trap; nothing in it is touched."""
    foreign = mine(tmp_path, "8-0")
    foreign.mkdir()
    os.chown(foreign, 65534, 65534)

    with kept(tmp_path):
        pass

    assert foreign.exists()
    assert not list(foreign.iterdir())


def test_a_room_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """One line that names it."""
    with pytest.raises(LaunchError, match="cannot be watched"), kept(tmp_path / "nothing"):
        pass


def test_what_killed_agents_left_is_swept(tmp_path: Path) -> None:
    """Memory of a node is given back; a living agent's directory is not touched."""
    dead = mine(tmp_path, "5-0")
    dead.mkdir()
    (dead / "rank-0.beat").touch()
    with kept(tmp_path) as alive, kept(tmp_path):
        assert not dead.exists()
        assert alive.directory.exists()


def test_agents_that_start_together_do_not_sweep_each_other(tmp_path: Path) -> None:
    """Jobs of one user on one node, beginning and ending all the time: each keeps its own."""
    agents = [
        subprocess.Popen(
            [sys.executable, "-c", AGENTS, str(tmp_path)], stderr=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]

    said = [agent.communicate(timeout=60)[1] for agent in agents]

    assert said == [""] * len(agents)
    assert not list(tmp_path.iterdir())


def test_the_last_lines_are_kept_within_bounds() -> None:
    """Neither many lines nor long ones, nor a progress bar without any newline, use up memory."""
    many, long, bar = Tail(), Tail(), Tail()
    for number in range(10_000):
        many.feed(b"line %d\n" % number)
        long.feed(b"x" * 10_000 + b"\n")
        bar.feed(b"\rstep")
    bar.feed(b"\nlast")

    assert many.lines()[-1] == "line 9999"
    assert len(many.lines()) == MOST_LINES
    assert sum(map(len, long.lines())) <= MOST_TAIL_BYTES
    assert bar.lines()[-1] == "last"


def test_output_is_passed_on_unchanged() -> None:
    """Bytes that are no text too; what nobody reads does not block the command."""
    data = b"a\xff\nb" * 1000
    (source, writes), (reads, sink) = os.pipe(), os.pipe()
    relay = Relay(source, sink)

    os.write(writes, data)
    passed_on = b""
    while len(passed_on) < len(data):
        passed_on += os.read(reads, 1 << 16)
    os.close(reads)
    for _ in range(100):  # more than a pipe holds, and nobody reads it
        os.write(writes, data)
    os.close(writes)
    began = time.monotonic()
    relay.finish(20)

    assert passed_on == data
    assert time.monotonic() - began < 20
    os.close(sink)
