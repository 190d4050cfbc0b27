"""The sampler beside the agent: what it says is taken, and it is never waited for."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from slurm_resilience.watch.hardware import DEADLINE_S, Hardware


@pytest.fixture
def hardware() -> Iterator[Hardware]:
    hardware = Hardware(every_s=1000.0)
    yield hardware
    hardware.close()


def wait_for_answer(hardware: Hardware) -> None:
    deadline = time.monotonic() + 30
    while hardware.is_asked:
        assert time.monotonic() < deadline
        hardware.tick(time.monotonic())
        time.sleep(0.01)


def test_the_node_is_read(hardware: Hardware) -> None:
    """An answer comes, whatever this machine has; a node without GPUs is no fault."""
    wait_for_answer(hardware)

    assert not hardware.newest.is_driver_mute
    assert "gpus" not in hardware.newest.unread


def test_a_driver_that_does_not_answer_is_said_and_left(hardware: Hardware) -> None:
    """A stopped sampler stands for one that hangs in the driver."""
    wait_for_answer(hardware)
    assert hardware.pid is not None
    os.kill(hardware.pid, signal.SIGSTOP)
    hardware.hurry()
    hardware.tick(time.monotonic())

    hardware.tick(time.monotonic() + DEADLINE_S + 1)

    assert hardware.newest.is_driver_mute
    assert hardware.newest.gpus is None
    assert hardware.pid is None


def test_a_sampler_that_died_accuses_nobody(hardware: Hardware) -> None:
    """It is not the driver's fault; the rest of the watch goes on."""
    assert hardware.pid is not None

    os.kill(hardware.pid, signal.SIGKILL)
    wait_for_answer(hardware)

    assert not hardware.newest.is_driver_mute
    assert "hardware" in hardware.newest.unread
