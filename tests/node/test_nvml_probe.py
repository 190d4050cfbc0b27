"""The real binding against a library that misbehaves as real ones do."""

import time

import msgspec
import pytest

from testbed import nvml
from tests.node.conftest import Scene

HEALTHY = nvml.h100s(2)


def second(**changes: object) -> tuple[nvml.GpuState, ...]:
    return (HEALTHY[0], msgspec.structs.replace(HEALTHY[1], **changes))


def test_a_healthy_gpu_is_read_whole(scene: Scene) -> None:
    """Every fact is there, or stands under unread with its reason."""
    answer = scene.read(live=True, thorough=True, processes=True)

    first = answer["gpus"][0]
    assert answer["driver_version"] == "550.54.15"
    assert (first["uuid"], first["pci"]) == (HEALTHY[0].uuid, "00000000:1B:00.0")
    assert (first["remap_pending"], first["remap_failed"]) == (False, False)
    assert (first["temperature_c"], first["power_limit_w"]) == (34, 700.0)
    assert first["nvlinks"] == [True] * 18
    assert (first["vbios"], first["persistence"]) == ("96.00.74.00.01", True)
    assert (first["fabric_state"], first["fabric_status"], first["fabric_health"]) == (
        3,
        0,
        0xAA,
    )
    assert (first["temperature_slowdown_c"], first["temperature_margin_c"]) == (92, 53)
    assert (first["clock_mhz"], first["clock_max_mhz"]) == (345, 1980)
    assert first["unread"] == dict.fromkeys(
        ("retired_pending", "retired_single_bit", "retired_double_bit"), "not supported"
    )  # they are of older boards


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

    (gpu,) = scene.read(live=True, thorough=True)["gpus"]

    assert "ecc_uncorrected" not in gpu
    assert gpu["unread"]["ecc_uncorrected"] == "not supported"
    assert set(gpu["unread"].values()) == {"not supported"}
    assert gpu["temperature_c"] == 34


def test_an_old_driver_lacks_functions(scene: Scene) -> None:
    """A function that the library does not have is as good as one the card does not support."""
    gpus = scene.read(
        without=["nvmlDeviceGetRemappedRows", "nvmlDeviceGetCurrentClocksEventReasons"],
        live=True,
        thorough=True,
    )["gpus"]

    assert gpus[0]["unread"]["remap_failed"] == "not supported"
    assert gpus[0]["throttle_reasons"] == 1  # by its older name


def test_an_error_is_no_zero(scene: Scene) -> None:
    """An unknown error leaves the fact unread, with the error's name."""
    scene.show(second(returns={"nvmlDeviceGetRemappedRows": nvml.UNKNOWN}))

    gpu = scene.read()["gpus"][1]

    assert "remap_failed" not in gpu
    assert gpu["unread"]["remap_failed"] == "Unknown"


@pytest.mark.parametrize(
    ("function", "field"),
    [("nvmlDeviceGetTotalEccErrors", "ecc_uncorrected"), ("*", "handle")],
    ids=["one answer", "every answer"],
)
def test_a_gpu_that_needs_a_reset_is_marked(scene: Scene, function: str, field: str) -> None:
    """Reset required is its own fact, beside what is unread because of it."""
    scene.show(second(returns={function: nvml.RESET_REQUIRED}))

    gpu = scene.read()["gpus"][1]

    assert gpu["reset_required"]
    assert gpu["unread"][field] == "ResetRequired"


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


def test_whoever_uses_a_gpu_is_named_once(scene: Scene) -> None:
    """Through MPS or to draw on it too; a process in two lists is one process."""
    scene.show(
        second(
            processes=((4242, 1 << 30),),
            mps_processes=((4242, 1 << 30), (4243, 1 << 20)),
            graphics_processes=((1, 4 << 20), (4242, 1 << 30)),
        )
    )

    gpu = scene.read(processes=True)["gpus"][1]

    found = {process["pid"]: process.get("draws", False) for process in gpu["processes"]}
    assert found == {4242: False, 4243: False, 1: True}


OLD = [
    f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in ("Compute", "MPSCompute", "Graphics")
]
OLDER = [
    *OLD,
    *(f"nvmlDeviceGet{kind}RunningProcesses_v2" for kind in ("MPSCompute", "Graphics")),
]


@pytest.mark.parametrize("without", [OLD, OLDER], ids=["before 510", "only those that compute"])
def test_an_old_driver_tells_of_processes_too(scene: Scene, without: list[str]) -> None:
    """By the names that its functions had; what it cannot tell hides nothing that it can."""
    scene.show(second(processes=((4242, 1 << 30),)))

    gpu = scene.read(without=without, processes=True)["gpus"][1]

    assert [process["pid"] for process in gpu["processes"]] == [4242]
    assert "processes" not in gpu["unread"]


MIG = ("MIG-00000000-0000-0000-0000-0000000000a0", "MIG-00000000-0000-0000-0000-0000000000a1")


def test_a_gpu_that_is_cut_up_names_its_parts(scene: Scene) -> None:
    """A job's environment may hold nothing but the name of a part."""
    scene.show(second(mig_mode=(True, True), mig_devices=MIG))

    whole, cut = scene.read()["gpus"]

    assert (whole["mig"], whole["mig_devices"]) == (False, [])
    assert (cut["mig"], cut["mig_devices"]) == (True, list(MIG))


def test_a_gpu_may_be_in_mig_mode_without_parts(scene: Scene) -> None:
    """MIG mode is on before an administrator makes the first one."""
    scene.show(second(mig_mode=(True, True)))

    assert scene.read()["gpus"][1]["mig_devices"] == []


def test_the_boards_own_limit_of_sram_errors_is_read(scene: Scene) -> None:
    """Drivers before 535 do not tell."""
    scene.show(second(sram_exceeded=True, ecc_locations={nvml.SRAM_AGGREGATE: 2}))

    whole, gpu = scene.read(thorough=True)["gpus"]
    old = scene.read(without=["nvmlDeviceGetSramEccErrorStatus"], thorough=True)["gpus"][1]

    assert (whole["sram_threshold_exceeded"], gpu["sram_threshold_exceeded"]) == (False, True)
    assert gpu["sram_uncorrected_aggregate"] == 2
    assert old["unread"]["sram_threshold_exceeded"] == "not supported"


def test_retired_pages_are_counted_by_cause(scene: Scene) -> None:
    """On a board before Ampere, which has them instead of remapped rows."""
    scene.show(second(remapped_rows=None, retired_pages=(8, 56), retired_pending=True))

    gpu = scene.read(live=True, thorough=True)["gpus"][1]

    assert (gpu["retired_single_bit"], gpu["retired_double_bit"]) == (8, 56)
    assert gpu["retired_pending"]


def test_nvlink_errors_are_read_where_there_are_links(scene: Scene) -> None:
    """Both kinds of CRC errors are one count; a card without the counters has none, not zero."""
    recovery = {nvml.RECOVERY_ACTION_FIELD: 0}
    counted = {
        nvml.NVLINK_CRC_FLIT: 3, nvml.NVLINK_CRC_DATA: 4, nvml.NVLINK_RECOVERY: 6,
    }  # fmt: skip
    scene.show(second(fields=recovery | counted))
    gpu = scene.read(live=True, thorough=True)["gpus"][1]
    assert (gpu["nvlink_crc_errors"], gpu["nvlink_recoveries"]) == (7, 6)

    scene.show(second(fields=recovery))
    gpu = scene.read(live=True, thorough=True)["gpus"][1]
    assert "nvlink_crc_errors" not in gpu
    assert gpu["unread"]["nvlink_crc_errors"] == "not supported"


@pytest.mark.parametrize(
    ("crc", "recovery"), [(163, 162), (219, 215)], ids=["Hopper", "Blackwell"]
)
def test_newer_boards_count_nvlink_errors_by_link(
    scene: Scene, crc: int, recovery: int
) -> None:
    """Under other names each; summed up they say the same."""
    told = {crc: 3, recovery: 1}
    by_link = {(field, link): value for field, value in told.items() for link in range(18)}
    scene.show(second(fields={nvml.RECOVERY_ACTION_FIELD: 0}, link_fields=by_link))

    gpu = scene.read(thorough=True)["gpus"][1]

    assert (gpu["nvlink_crc_errors"], gpu["nvlink_recoveries"]) == (54, 18)


def test_a_card_without_a_fabric_has_none(scene: Scene) -> None:
    """An H100 PCIe answers the question for its fabric with not supported."""
    scene.show(second(fabric=None))

    gpu = scene.read(live=True, thorough=True)["gpus"][1]

    assert "fabric_state" not in gpu
    assert gpu["unread"]["fabric_state"] == "not supported"


def test_an_older_driver_tells_the_fabric_without_its_health(scene: Scene) -> None:
    """The question had another name until driver 545."""
    scene.show(second(fabric=(nvml.FABRIC_IN_PROGRESS, 0, 0xAA)))

    gpu = scene.read(without=["nvmlDeviceGetGpuFabricInfoV"], live=True, thorough=True)["gpus"][
        1
    ]

    assert (gpu["fabric_state"], gpu["fabric_status"]) == (nvml.FABRIC_IN_PROGRESS, 0)
    assert "fabric_health" not in gpu


def test_a_corrupted_inforom_is_a_fact_and_no_failure(scene: Scene) -> None:
    """nvidia-smi ends with 14 for it; all else is read as ever."""
    scene.show(second(returns={"nvmlDeviceValidateInforom": nvml.CORRUPTED_INFOROM}))

    whole, gpu = scene.read(live=True, thorough=True)["gpus"]

    assert (whole["inforom_valid"], gpu["inforom_valid"]) == (True, False)
    assert gpu["unread"] == whole["unread"]


def test_a_running_jobs_agent_asks_for_little(scene: Scene) -> None:
    """What it asks every few seconds must not disturb the job; links and histories can wait."""
    gpu = scene.read(live=True)["gpus"][0]

    assert gpu["utilization_percent"] == 0
    assert not {"nvlinks", "inforom_valid", "ecc_corrected", "remap_banks_exhausted"} & set(gpu)


def test_one_field_that_fails_hides_no_other(scene: Scene) -> None:
    """What nvidia-smi prints as ERR! is one unread fact; all others and the other GPU stay."""
    whole, _ = scene.read(live=True, thorough=True)["gpus"]
    scene.show(second(returns={"nvmlDeviceGetTemperature": nvml.UNKNOWN}))

    other, gpu = scene.read(live=True, thorough=True)["gpus"]

    assert gpu["unread"]["temperature_c"] == "Unknown"
    assert set(whole) - set(gpu) == {"temperature_c"}
    assert other == whole


def test_a_name_that_is_no_text_hides_nothing(scene: Scene) -> None:
    """A dying card answers with rubbish; the binding fails at it without any NVML error."""
    scene.show(second(serial="165\udcff"))

    other, gpu = scene.read(thorough=True)["gpus"]

    assert other["serial"] == HEALTHY[0].serial
    assert "serial" not in gpu
    assert "can't decode" in gpu["unread"]["serial"]
    assert gpu["ecc_uncorrected"] == 0


NO_DATA = 21


@pytest.mark.parametrize(
    ("function", "field", "why"),
    [
        ("nvmlDeviceGetRowRemapperHistogram", "remap_banks_exhausted", "not supported"),
        ("nvmlDeviceGetRemappedRows", "remap_failed", "NoData"),
    ],
)
def test_no_data_is_news_only_where_a_fault_is_looked_for(
    scene: Scene, function: str, field: str, why: str
) -> None:
    """Drivers have many words for "this board has none"; a fault's own counter must speak."""
    scene.show(second(returns={function: NO_DATA}))

    gpu = scene.read(live=True, thorough=True)["gpus"][1]

    assert gpu["unread"][field] == why


def test_every_question_may_fail_on_its_own(scene: Scene) -> None:
    """A dead card errs at everything, and its neighbour is still read whole."""
    scene.show(second(returns={"*": nvml.UNKNOWN}))

    other, dead = scene.read(live=True, thorough=True, processes=True)["gpus"]

    assert dead == {"index": 1, "unread": {"handle": "Unknown"}}
    assert other["uuid"] == HEALTHY[0].uuid


@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetNvLinkState", "nvmlDeviceGetRowRemapperHistogram", "nvmlDeviceGetCount"],
)
def test_a_hung_call_costs_its_own_time_only(scene: Scene, function: str) -> None:
    """Whichever it is: the asker goes on at its deadline, and asks again once the driver answers."""
    hung = {function: ""}
    scene.show(
        second(hangs=hung) if function != "nvmlDeviceGetCount" else HEALTHY,
        nvml.SystemState(hangs=hung if function == "nvmlDeviceGetCount" else {}),
    )
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        scene.read(live=True, thorough=True, timeout_s=0.5)
    assert time.monotonic() - began < 20

    scene.show(HEALTHY)
    assert len(scene.read(live=True, thorough=True)["gpus"]) == 2


@pytest.mark.parametrize(("told", "read"), [((1 << 32) - 5, -5), (105, 105)])
def test_a_temperature_has_a_sign(scene: Scene, told: int, read: int) -> None:
    """NVML gives it as a number without one: a cold start is no four thousand million degrees."""
    scene.show(second(temperature_c=told))

    assert scene.read(live=True)["gpus"][1]["temperature_c"] == read


@pytest.mark.parametrize("told", [(1 << 32) - 200, 4095])
def test_an_absurd_temperature_is_not_read(scene: Scene, told: int) -> None:
    """A broken sensor says nothing of the heat, and is said to."""
    scene.show(second(temperature_c=told))

    gpu = scene.read(live=True)["gpus"][1]
    assert "temperature_c" not in gpu
    assert "is no temperature" in gpu["unread"]["temperature_c"]
