"""Rules over NVML as a whole. Pure."""

from collections.abc import Iterator

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.rules.rule import Rule
from slurm_resilience.node.settings import NodeSettings


def driver_library_mismatch(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """The library of a newer driver over the kernel module of an older one: no CUDA starts."""
    if facts.nvml_error == "LibRmVersionMismatch":
        detail = "driver and NVML library are of different versions; reboot"
        yield Finding("driver-library-mismatch", Severity.DRAIN, "node", detail)


def driver_not_loaded(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Only where GPUs are expected: a node without any has no driver either."""
    if facts.nvml_error == "DriverNotLoaded" and settings.expect.gpus:
        detail = f"{settings.expect.gpus} GPUs expected, the driver is not loaded"
        yield Finding("driver-not-loaded", Severity.DRAIN, "node", detail)


def nvml_unavailable(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """Other failures say nothing of the GPUs: NVML fails so inside a container, for example."""
    if facts.nvml_error in {None, "LibRmVersionMismatch"} or settings.expect.gpus == 0:
        return
    absent = facts.nvml_error in {"LibraryNotFound", "DriverNotLoaded"}
    if absent and settings.expect.gpus is None:
        yield Finding("nvml-unavailable", Severity.OK, "node", "no NVIDIA driver on this node")
    elif facts.nvml_error != "DriverNotLoaded":
        detail = f"NVML: {facts.nvml_error}"
        yield Finding("nvml-unavailable", Severity.UNKNOWN, "node", detail)


def gpu_missing(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """
    Against the expectation: NVML itself never misses a GPU that it does not see.

    One that was there earlier in this boot is missed too: Slurm would go on handing it out.
    """
    expected = settings.expect.gpus
    gone = ", ".join(
        f"gpu{gpu.index} ({', '.join(filter(None, (gpu.uuid, gpu.pci)))})" for gpu in facts.gone
    )
    if facts.gpus is not None and expected is not None and len(facts.gpus) < expected:
        detail = f"{len(facts.gpus)} of {expected} GPUs" + (f"; gone: {gone}" if gone else "")
        yield Finding("gpu-missing", Severity.DRAIN, "node", detail)
    elif gone:
        detail = f"there earlier in this boot, and gone: {gone}"
        yield Finding("gpu-missing", Severity.DRAIN_WHEN_IDLE, "node", detail)


def driver_version(facts: NodeFacts, settings: NodeSettings) -> Iterator[Finding]:
    """A job over several nodes wants the same driver on each."""
    wanted = settings.expect.driver_version
    if wanted is not None and facts.driver_version not in {None, wanted}:
        detail = f"NVIDIA driver {facts.driver_version}, {wanted} is expected"
        yield Finding("driver-version", Severity.WARN, "node", detail)


def gpus_differ(facts: NodeFacts, _: NodeSettings) -> Iterator[Finding]:
    """GPUs of one model on one node that are not alike: one was replaced, or set otherwise."""
    for field, what in _ALIKE.items():
        for name in sorted({gpu.name for gpu in facts.gpus or () if gpu.name}):
            values: dict[object, list[str]] = {}
            for gpu in facts.gpus or ():
                value = getattr(gpu, field)
                if gpu.name == name and value is not None:
                    values.setdefault(value, []).append(f"gpu{gpu.index}")
            if len(values) > 1:
                told = "; ".join(f"{value} on {','.join(on)}" for value, on in values.items())
                yield Finding("gpus-differ", Severity.WARN, "node", f"{what}: {told}")


_ALIKE = {
    "vbios": "VBIOS",
    "ecc_enabled": "ECC mode on",
    "memory_total_mib": "MiB of memory",
    "pcie_width_max": "PCIe lanes",
    "power_limit_w": "power limit in W",
}
"""Fields in which GPUs of one model should not differ, for people."""

DRIVER_RULES: tuple[Rule, ...] = (
    driver_library_mismatch, driver_not_loaded, nvml_unavailable, gpu_missing, driver_version,
    gpus_differ,
)  # fmt: skip
