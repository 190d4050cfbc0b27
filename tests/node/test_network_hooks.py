"""The installed shims on a machine whose network, bus or kernel log tells of a fault."""

from tests.node.conftest import Machine

GO_ON, STOP = 0, 1
PORT = "class/infiniband/mlx5_0/ports/1"
EXPECTED = "expect: {links: {'mlx5_0:1': {}}}"


def test_a_flapping_link_stops_jobs_until_it_is_quiet(machine: Machine) -> None:
    """Two health checks see it fall; what it had fallen before the first one counts for nothing."""
    downs = machine.sysfs / PORT / "counters/link_downed"
    machine.configure(EXPECTED)
    downs.write_text("40\n")

    assert "link-flapping" not in machine.hook("health").stderr
    assert machine.hook("prolog").returncode == GO_ON
    downs.write_text("43\n")
    told = machine.hook("health").stderr
    assert "link-flapping mlx5_0:1: went down 3 times within an hour" in told
    assert machine.hook("prolog").returncode == STOP


def test_a_flapping_link_that_nobody_expects_is_only_told(machine: Machine) -> None:
    """It may be the port of another job's storage, or of nobody."""
    downs = machine.sysfs / PORT / "counters/link_downed"
    downs.write_text("0\n")
    machine.hook("health")
    downs.write_text("9\n")

    assert "warn: link-flapping mlx5_0:1" in machine.hook("health").stderr
    assert machine.hook("prolog").returncode == GO_ON


def test_what_a_port_does_not_count_is_remembered(machine: Machine) -> None:
    """The second health check of a boot leaves it alone."""
    counter = machine.sysfs / PORT / "counters/link_downed"
    counter.write_text("N/A (no PMA)\n")

    machine.hook("health")

    kept = (machine.state / "unsupported-counters").read_text()
    assert "mlx5_0:1/counters/link_downed" in kept
    assert kept.splitlines()[0] == machine.boot_id.read_text().strip()


def test_a_file_system_that_gave_up_stops_jobs(machine: Machine) -> None:
    """The health check reads more of the kernel log, and the prolog takes its word."""
    machine.log("EXT4-fs (sda1): Remounting filesystem read-only")

    assert machine.hook("prolog").returncode == GO_ON
    assert "drain: file-system-error sda1" in machine.hook("health").stderr
    assert machine.hook("prolog").returncode == STOP


def test_corrected_errors_cost_nothing(machine: Machine) -> None:
    """Memory and bus repair themselves, by the thousand."""
    for _ in range(3):
        machine.log(
            "nvidia 0000:1b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer"
        )
        machine.log("mce: [Hardware Error]: Machine check events logged")
        machine.log(
            "EDAC MC1: 1 CE memory scrubbing error on CPU_SrcID#1_Ha#0_Chan#0_DIMM#0 (…)"
        )

    assert machine.hook("health").returncode == GO_ON
    assert machine.hook("prolog").returncode == GO_ON


def test_a_gpu_off_the_bus_is_found_without_any_xid(machine: Machine) -> None:
    """Its registers read as ones: lspci's `rev ff`."""
    base = machine.sysfs / "bus/pci/devices/0000:1b:00.0"
    base.mkdir(parents=True)
    for name, text in {"class": "0x030200", "vendor": "0x10de", "device": "0x2330"}.items():
        (base / name).write_text(f"{text}\n")
    (base / "config").write_bytes(b"\xff" * 64)

    assert "drain: pcie-gone gpu0" in machine.hook("health").stderr
    assert machine.hook("prolog").returncode == STOP
    assert machine.hook("prolog", SLURM_JOB_GPUS="1").returncode == GO_ON


def test_a_gpu_reset_settles_its_xid(machine: Machine) -> None:
    """The driver says that the GPU needs nothing any more."""
    machine.log("NVRM: Xid (PCI:0000:1b:00): 95, pid=7, name=p, Uncontained ECC error")
    assert machine.hook("prolog").returncode == STOP

    machine.log(
        "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required)"
        " to 0x0 (None)"
    )
    assert machine.hook("prolog").returncode == GO_ON
