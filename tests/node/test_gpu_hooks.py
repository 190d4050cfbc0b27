"""What the hooks make of GPUs over time: the real shims, on a machine of the test's own."""

import msgspec

from testbed import nvml
from tests.node.conftest import Machine

GO_ON, STOP = 0, 1
HEALTHY = nvml.h100s(2)


def second(**changes: object) -> tuple[nvml.GpuState, ...]:
    return (HEALTHY[0], msgspec.structs.replace(HEALTHY[1], **changes))


def test_a_lost_gpu_is_still_the_jobs(machine: Machine) -> None:
    """It tells no name any more; a job that was given it is stopped, and told which one it is."""
    swapped = tuple(
        msgspec.structs.replace(gpu, minor=1 - place) for place, gpu in enumerate(HEALTHY)
    )
    machine.show(swapped)
    assert machine.hook("prolog").returncode == GO_ON
    lost = msgspec.structs.replace(swapped[1], returns={"*": nvml.GPU_IS_LOST})
    machine.show((swapped[0], lost))

    mine = machine.hook("prolog", SLURM_JOB_GPUS="0")
    others = machine.hook("prolog", SLURM_JOB_GPUS="1")

    assert mine.returncode == STOP
    assert f"gpu-lost gpu1: has fallen off the bus ({HEALTHY[1].uuid})" in mine.stderr
    assert (others.returncode, others.stderr) == (GO_ON, "")


def test_names_of_an_earlier_boot_are_not_believed(machine: Machine) -> None:
    """GPUs may have been moved in between."""
    machine.hook("prolog")
    machine.reboot()
    machine.show(second(returns={"*": nvml.GPU_IS_LOST}))

    done = machine.hook("prolog", SLURM_JOB_GPUS="1")

    assert done.returncode == STOP
    assert HEALTHY[1].uuid not in done.stderr


def test_a_gpu_that_vanished_is_named(machine: Machine) -> None:
    """NVML lists it no more, so only memory can say which one to look for."""
    machine.configure("expect: {gpus: 2}")
    machine.hook("prolog")
    machine.show(HEALTHY[:1])

    done = machine.hook("prolog", SLURM_JOB_GPUS="0")

    assert done.returncode == STOP
    assert f"1 of 2 GPUs; gone: gpu1 ({HEALTHY[1].uuid}, 0000:2b:00.0)" in done.stderr


def test_a_gpu_that_vanished_stops_jobs_without_an_expectation(machine: Machine) -> None:
    """Slurm would go on handing it out; after a reboot the node is what it then has."""
    machine.hook("prolog")
    machine.show(HEALTHY[:1])

    assert machine.hook("prolog", SLURM_JOB_GPUS="1").returncode == STOP
    machine.reboot()
    assert machine.hook("prolog", SLURM_JOB_GPUS="0").returncode == GO_ON


def test_nvlinks_that_went_down_are_missed_without_an_expectation(machine: Machine) -> None:
    """What was up earlier in this boot should be; the prolog takes the health check's word."""
    machine.configure("expect: {gpus: 2}, grace_s: 0.1")
    machine.hook("health")
    machine.show(second(nvlinks=(False,) * 18))

    assert "nvlink-down gpu1: 0 NVLinks are up, 18 were" in machine.hook("health").stderr
    assert machine.hook("prolog").returncode == STOP


def test_a_board_whose_links_were_never_up_misses_none(machine: Machine) -> None:
    """As a PCIe card's."""
    down = tuple(msgspec.structs.replace(gpu, nvlinks=(False,) * 12) for gpu in HEALTHY)
    machine.show(down)

    for _ in range(2):
        assert "nvlink" not in machine.hook("health").stderr
    assert machine.hook("prolog").returncode == GO_ON


def test_a_warning_costs_no_prolog_its_time(machine: Machine) -> None:
    """The health check says it each time; the prolog of a fit node stays silent."""
    machine.show(second(persistence=False))

    assert "warn: persistence-off gpu1" in machine.hook("health").stderr
    assert machine.hook("prolog").stderr == ""


def test_what_was_found_stands_while_the_driver_is_silent(machine: Machine) -> None:
    """A health check that cannot look clears nobody."""
    machine.configure("expect: {ecc: true}, budgets: {slow_probe_s: 1.0, probe_s: 1.0}")
    machine.show(second(ecc_enabled=False))
    assert "ecc-mode gpu1" in machine.hook("health").stderr

    machine.show(second(ecc_enabled=False, hangs={"nvmlDeviceGetNvLinkState": ""}))
    assert "probe-hung nvml" in machine.hook("health").stderr

    machine.show(second())
    assert machine.hook("prolog").returncode == STOP
    machine.hook("health")
    assert machine.hook("prolog").returncode == GO_ON


def test_a_hung_driver_hides_no_other_fault(machine: Machine) -> None:
    """The other probes' answers are judged as ever."""
    machine.configure("budgets: {slow_probe_s: 1.0}")
    machine.show(second(hangs={"nvmlDeviceGetTemperature": ""}))
    (machine.sysfs / "devices/system/edac/mc/mc0/ue_count").write_text("1\n")

    done = machine.hook("health")

    assert "probe-hung nvml" in done.stderr
    assert "memory-uncorrected" in done.stderr


def test_a_mig_job_is_judged_by_the_gpu_it_is_cut_from(machine: Machine) -> None:
    """Slurm's number counts MIG devices; the name of one says whose part it is."""
    parts = ("MIG-00000000-0000-0000-0000-0000000000a0",)
    machine.show(
        second(mig_mode=(True, True), mig_devices=parts, remapped_rows=(0, 1, True, False))
    )

    mine = machine.hook("prolog", SLURM_JOB_GPUS="0", CUDA_VISIBLE_DEVICES=parts[0])
    others = machine.hook("prolog", SLURM_JOB_GPUS="", CUDA_VISIBLE_DEVICES=HEALTHY[0].uuid)

    assert mine.returncode == STOP
    assert others.returncode == GO_ON
