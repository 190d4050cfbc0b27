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
    """Against the expectation: NVML itself never misses a GPU that it does not see."""
    expected = settings.expect.gpus
    if facts.gpus is not None and expected is not None and len(facts.gpus) < expected:
        detail = f"{len(facts.gpus)} of {expected} GPUs"
        yield Finding("gpu-missing", Severity.DRAIN, "node", detail)


DRIVER_RULES: tuple[Rule, ...] = (
    driver_library_mismatch, driver_not_loaded, nvml_unavailable, gpu_missing,
)  # fmt: skip
