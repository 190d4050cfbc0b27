"""The sampler beside the agent: what it says is taken, and it is never waited for."""

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from slurm_resilience.watch.hardware import DEADLINE_S, START_S, Hardware


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


HANGING = (sys.executable, "-c", "print(flush=True); input(); input()")
"""A sampler whose driver never answers."""


@pytest.fixture
def hanging() -> Iterator[Hardware]:
    hardware = Hardware(every_s=1000.0, command=HANGING)
    deadline = time.monotonic() + 30
    while not hardware.is_driver_asked:
        assert time.monotonic() < deadline
        hardware.tick(0.0)
        time.sleep(0.01)
    yield hardware
    hardware.close()


def test_a_driver_that_does_not_answer_is_said_and_left(hanging: Hardware) -> None:
    """Asked, and no answer while the agent itself looks as often as it should."""
    for second in range(int(DEADLINE_S) + 2):
        hanging.tick(float(second))

    assert hanging.newest.is_driver_mute
    assert hanging.newest.gpus is None
    assert hanging.pid is None


def test_a_node_with_too_much_to_do_is_no_fault_of_the_driver(hanging: Hardware) -> None:
    """An agent that seldom gets to run knows nothing of a driver."""
    for minute in range(10):
        hanging.tick(minute * 60.0)

    assert not hanging.newest.is_driver_mute
    assert hanging.pid is not None


def test_a_sampler_that_does_not_get_to_the_driver_accuses_nobody(hardware: Hardware) -> None:
    """Stopped, starved, or without its files: it is given up, and the driver was never asked."""
    wait_for_answer(hardware)
    assert hardware.pid is not None
    os.kill(hardware.pid, signal.SIGSTOP)
    hardware.hurry()
    now = time.monotonic()
    for second in range(int(START_S) + 2):
        hardware.tick(now + second)

    assert not hardware.newest.is_driver_mute
    assert "hardware" in hardware.newest.unread
    assert hardware.pid is None


def test_a_sampler_that_died_accuses_nobody(hardware: Hardware) -> None:
    """It is not the driver's fault; the rest of the watch goes on."""
    assert hardware.pid is not None

    os.kill(hardware.pid, signal.SIGKILL)
    wait_for_answer(hardware)

    assert not hardware.newest.is_driver_mute
    assert "hardware" in hardware.newest.unread
