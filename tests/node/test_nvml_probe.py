"""The real binding against a library that misbehaves as real ones do."""

import msgspec
import pytest

from testbed import nvml
from tests.node.conftest import Scene

HEALTHY = nvml.h100s(2)


def second(**changes: object) -> tuple[nvml.GpuState, ...]:
    return (HEALTHY[0], msgspec.structs.replace(HEALTHY[1], **changes))


def test_a_healthy_gpu_is_read_whole(scene: Scene) -> None:
    """Every fact is there, or stands under unread with its reason."""
    answer = scene.read(live=True, processes=True)

    first = answer["gpus"][0]
    assert answer["driver_version"] == "550.54.15"
    assert (first["uuid"], first["pci"]) == (HEALTHY[0].uuid, "00000000:1B:00.0")
    assert (first["remap_pending"], first["remap_failed"]) == (False, False)
    assert (first["temperature_c"], first["power_limit_w"]) == (34, 700.0)
    assert first["nvlinks"] == [True] * 18
    assert first["unread"] == {"retired_pending": "not supported"}


def test_a_lost_gpu_hides_no_other(scene: Scene) -> None:
    """One GPU off the bus is one lost GPU; the rest answers as before."""
    scene.show(second(returns={"nvmlDeviceGetHandleByIndex": nvml.GPU_IS_LOST}))

    first, lost = scene.read()["gpus"]

    assert lost == {"index": 1, "lost": True, "unread": {}}
    assert first["uuid"] == HEALTHY[0].uuid


def test_a_gpu_may_be_lost_while_it_is_read(scene: Scene) -> None:
    """What was read before it went stays known, so that people see which one it is."""
    scene.show(second(returns={"nvmlDeviceGetTotalEccErrors": nvml.GPU_IS_LOST}))

    lost = scene.read()["gpus"][1]

    assert lost["lost"]
    assert lost["uuid"] == HEALTHY[1].uuid


def test_a_consumer_card_lacks_much_and_fails_at_nothing(scene: Scene) -> None:
    """Not supported is a fact, not an error, and never a zero."""
    scene.show([nvml.geforce()])

    (gpu,) = scene.read(live=True)["gpus"]

    assert "ecc_uncorrected" not in gpu
    assert gpu["unread"]["ecc_uncorrected"] == "not supported"
    assert set(gpu["unread"].values()) == {"not supported"}
    assert gpu["temperature_c"] == 34


def test_an_old_driver_lacks_functions(scene: Scene) -> None:
    """A function that the library does not have is as good as one the card does not support."""
    gpus = scene.read(
        without=["nvmlDeviceGetRemappedRows", "nvmlDeviceGetCurrentClocksEventReasons"],
        live=True,
    )["gpus"]

    assert gpus[0]["unread"]["remap_failed"] == "not supported"
    assert gpus[0]["throttle_reasons"] == 1  # by its older name


def test_an_error_is_no_zero(scene: Scene) -> None:
    """An unknown error leaves the fact unread, with the error's name."""
    scene.show(second(returns={"nvmlDeviceGetRemappedRows": nvml.UNKNOWN}))

    gpu = scene.read()["gpus"][1]

    assert "remap_failed" not in gpu
    assert gpu["unread"]["remap_failed"] == "Unknown"


def test_a_gpu_that_needs_a_reset_is_marked(scene: Scene) -> None:
    """Reset required is its own fact, beside what is unread because of it."""
    scene.show(second(returns={"nvmlDeviceGetTotalEccErrors": nvml.RESET_REQUIRED}))

    gpu = scene.read()["gpus"][1]

    assert gpu["reset_required"]
    assert gpu["unread"]["ecc_uncorrected"] == "ResetRequired"


@pytest.mark.parametrize(
    ("code", "name"), [(18, "LibRmVersionMismatch"), (9, "DriverNotLoaded"), (999, "Unknown")]
)
def test_an_initialisation_that_fails_has_a_name(scene: Scene, code: int, name: str) -> None:
    """Why NVML cannot be used at all decides what it means for the node."""
    scene.show(HEALTHY, nvml.SystemState(returns={"nvmlInitWithFlags": code}))

    assert scene.read() == {"nvml_error": name}


def test_a_call_that_hangs_is_given_up(scene: Scene) -> None:
    """A call that never returns costs its deadline and nothing else."""
    scene.show(second(hangs={"nvmlDeviceGetTotalEccErrors": ""}))

    with pytest.raises(TimeoutError):
        scene.read(timeout_s=0.5)


def test_each_reading_sees_the_present(scene: Scene) -> None:
    """A fault that comes between two readings is in the second."""
    before = scene.read()["gpus"][1]
    scene.show(second(remapped_rows=(0, 1, True, False)))
    after = scene.read()["gpus"][1]

    assert (before["remap_pending"], after["remap_pending"]) == (False, True)


def test_processes_on_a_gpu_are_named(scene: Scene) -> None:
    """Who computes on a GPU, and with how much memory."""
    scene.show(second(processes=((4242, 3 << 30),)))

    gpus = scene.read(processes=True)["gpus"]

    assert gpus[0]["processes"] == []
    assert gpus[1]["processes"] == [{"pid": 4242, "memory_mib": 3072}]
