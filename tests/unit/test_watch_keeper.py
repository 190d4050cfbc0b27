"""The keeper: a real command, a real tree of processes, and nothing left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.watch.keeper import command_line
from slurm_resilience.watch.processes import read_process

TREE = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
orphan = subprocess.Popen(["sh", "-c", "sleep 601 & echo $!"], stdout=subprocess.PIPE, text=True)
print(os.getpid(), child.pid, orphan.stdout.readline().strip(), flush=True)
signal.pause()
"""
"""A process, its child in a session of its own, and an orphan of a grandchild."""


class Kept:
    """A keeper with the tree under it."""

    def __init__(self, *, grace_s: float = 0.2, shield: bool = False) -> None:
        words = command_line(grace_s, [sys.executable, "-c", TREE], shield=shield)
        self.keeper = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.keeper.stdout is not None
        self.tree = [int(word) for word in self.keeper.stdout.readline().split()]

    def close(self) -> None:
        for stream in (self.keeper.stdin, self.keeper.stdout):
            if stream is not None:
                stream.close()
        self.keeper.wait(timeout=20)


@pytest.fixture
def kept() -> Iterator[Kept]:
    kept = Kept()
    yield kept
    kept.close()


def is_gone(pid: int) -> bool:
    process = read_process(pid)
    return process is None or process.state in "ZX"


def test_the_whole_tree_ends_when_asked(kept: Kept) -> None:
    """A child in a session of its own, an orphan, and a stopped process go too."""
    os.kill(kept.tree[1], signal.SIGSTOP)
    assert kept.keeper.stdin is not None

    kept.keeper.stdin.write(b"\n")
    kept.keeper.stdin.flush()

    assert kept.keeper.wait(timeout=20) in {128 + signal.SIGTERM, 128 + signal.SIGKILL}
    assert all(is_gone(pid) for pid in kept.tree)


def test_the_whole_tree_ends_with_the_agent(kept: Kept) -> None:
    """The pipe's other end closes at the agent's death; no grace then."""
    assert kept.keeper.stdin is not None

    kept.keeper.stdin.close()

    kept.keeper.wait(timeout=20)
    assert all(is_gone(pid) for pid in kept.tree)


def test_the_tree_ends_with_its_head(kept: Kept) -> None:
    """When the command ends by itself, what it left is ended, and its status is the keeper's."""
    os.kill(kept.tree[0], signal.SIGKILL)

    assert kept.keeper.wait(timeout=20) == 128 + signal.SIGKILL
    assert all(is_gone(pid) for pid in kept.tree)


@pytest.mark.parametrize("shield", [True, False])
def test_a_signal_for_everybody_spares_shielded_ranks(*, shield: bool) -> None:
    """Where Slurm signals every process of a step, a notice must not end the ranks."""
    kept = Kept(shield=shield)

    for pid in (kept.keeper.pid, *kept.tree):
        os.kill(pid, signal.SIGTERM)

    if shield:
        kept.keeper.send_signal(signal.SIGUSR2)
        assert not any(is_gone(pid) for pid in kept.tree)
    else:
        assert kept.keeper.wait(timeout=20) == 128 + signal.SIGTERM
    kept.close()
    assert all(is_gone(pid) for pid in kept.tree)


def test_a_command_that_cannot_be_started_is_said(tmp_path: Path) -> None:
    """One line that names it, and the status that a shell would give."""
    words = command_line(1.0, [str(tmp_path / "nothing")], shield=False)

    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)

    assert done.returncode == 127
    assert done.stderr.splitlines() == [
        f"slurm-resilience: cannot start {tmp_path}/nothing: No such file or directory"
    ]


def test_statuses_are_the_commands() -> None:
    """What the command ends with is what srun sees."""
    words = command_line(1.0, ["sh", "-c", "exit 7"], shield=False)

    with subprocess.Popen(words, stdin=subprocess.PIPE) as keeper:
        assert keeper.wait(timeout=20) == 7
