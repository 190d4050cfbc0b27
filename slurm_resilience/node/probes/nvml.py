"""
What NVML says of the GPUs. The only module that knows pynvml, and it is imported late: in the
child that asks, never in a hook itself.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Reader = tuple[tuple[str, ...], Callable[[Any, Any], tuple[Any, ...]]]
    """Fields, and (pynvml, handle) -> their values."""


NOT_SUPPORTED = "not supported"
RECOVERY_ACTION_FIELD = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, which older bindings do not name."""
MOST_NVLINKS = 36
_MIB = 1 << 20


def read(*, live: bool = False, processes: bool = False) -> dict[str, Any]:
    """
    All GPUs, as `facts.NodeFacts` names things.

    Faults only, which stay as they are on a healthy node; with *live* also temperatures, power,
    links and the like, with *processes* who computes on each GPU.
    """
    nvml = _binding()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return {"nvml_error": _name(error)}
    readers = _FAULTS + (_LIVE if live else ()) + (_PROCESSES if processes else ())
    try:
        return {
            "driver_version": nvml.nvmlSystemGetDriverVersion(),
            "nvml_version": nvml.nvmlSystemGetNVMLVersion(),
            "gpus": [_gpu(nvml, index, readers) for index in range(nvml.nvmlDeviceGetCount())],
        }
    except nvml.NVMLError as error:
        return {"nvml_error": _name(error)}


def _binding() -> Any:  # noqa: ANN401 - a module without types
    # pynvml wants find_library, which it uses nowhere on Linux, of a module that pulls in shutil,
    # subprocess and tempfile: a third of the time this child takes. It gets the real one when it
    # does ask.
    if "ctypes.util" not in sys.modules:
        late = ModuleType("ctypes.util")
        late.find_library = _find_library  # type: ignore[attr-defined]
        sys.modules["ctypes.util"] = late
    import pynvml  # noqa: PLC0415

    return pynvml


def _find_library(name: str) -> str | None:
    del sys.modules["ctypes.util"]
    from ctypes.util import find_library  # noqa: PLC0415

    return find_library(name)


def _name(error: Any) -> str:  # noqa: ANN401
    """`GpuIsLost`, `NotSupported`, …: the binding has a class for each code."""
    name = type(error).__name__.removeprefix("NVMLError_")
    return name if name != "NVMLError" else f"error {error.value}"


def _gpu(nvml: Any, index: int, readers: tuple[Reader, ...]) -> dict[str, Any]:  # noqa: ANN401
    gpu: dict[str, Any] = {"index": index}
    unread: dict[str, str] = {}
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        for fields, read_values in readers:
            try:
                gpu |= zip(fields, read_values(nvml, handle), strict=True)
            except nvml.NVMLError_GpuIsLost:
                raise
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_RESET_REQUIRED:
                    gpu["reset_required"] = True
                absent = (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
                why = NOT_SUPPORTED if error.value in absent else _name(error)
                unread |= dict.fromkeys(fields, why)
            except AttributeError:  # an older binding has no such function
                unread |= dict.fromkeys(fields, NOT_SUPPORTED)
    except nvml.NVMLError_GpuIsLost:
        gpu["lost"] = True
    except nvml.NVMLError as error:
        unread["handle"] = _name(error)
    return {**gpu, "unread": unread}


def _one(function: str, *arguments: Any) -> Callable[[Any, Any], tuple[Any, ...]]:  # noqa: ANN401
    return lambda nvml, handle: (getattr(nvml, function)(handle, *arguments),)


def _flag(function: str) -> Callable[[Any, Any], tuple[bool]]:
    return lambda nvml, handle: (bool(getattr(nvml, function)(handle)),)


def _rows(nvml: Any, handle: Any) -> tuple[Any, ...]:  # noqa: ANN401
    corrected, uncorrected, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return corrected, uncorrected, bool(pending), bool(failed)


def _recovery_action(nvml: Any, handle: Any) -> tuple[int]:  # noqa: ANN401
    (field,) = nvml.nvmlDeviceGetFieldValues(handle, [RECOVERY_ACTION_FIELD])
    if field.nvmlReturn:
        raise nvml.NVMLError(field.nvmlReturn)
    return (field.value.uiVal,)


def _watts(nvml: Any, handle: Any) -> tuple[float, float]:  # noqa: ANN401
    used = nvml.nvmlDeviceGetPowerUsage(handle)
    return used / 1000, nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000


def _memory(nvml: Any, handle: Any) -> tuple[int, int]:  # noqa: ANN401
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return memory.used // _MIB, memory.total // _MIB


def _throttle_reasons(nvml: Any, handle: Any) -> tuple[int]:  # noqa: ANN401
    try:
        return (nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),)
    except nvml.NVMLError_FunctionNotFound:  # its name until driver 535
        return (nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),)


def _nvlinks(nvml: Any, handle: Any) -> tuple[list[bool]]:  # noqa: ANN401
    states: list[bool] = []
    for link in range(MOST_NVLINKS):
        try:
            states.append(bool(nvml.nvmlDeviceGetNvLinkState(handle, link)))
        except (nvml.NVMLError_InvalidArgument, nvml.NVMLError_NotSupported):
            if not link:
                raise
            break
    return (states,)


def _running(nvml: Any, handle: Any) -> tuple[list[dict[str, Any]]]:  # noqa: ANN401
    found = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return (
        [
            {"pid": one.pid, "memory_mib": one.usedGpuMemory and one.usedGpuMemory // _MIB}
            for one in found
        ],
    )


_FAULTS: tuple[Reader, ...] = (
    (("uuid",), _one("nvmlDeviceGetUUID")),
    (("pci",), lambda nvml, handle: (nvml.nvmlDeviceGetPciInfo(handle).busId,)),
    (("minor",), _one("nvmlDeviceGetMinorNumber")),
    (("ecc_uncorrected",), _one("nvmlDeviceGetTotalEccErrors", 1, 0)),
    (("remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failed"), _rows),
    (("retired_pending",), _flag("nvmlDeviceGetRetiredPagesPendingStatus")),
    (("recovery_action",), _recovery_action),
)
_PROCESSES: tuple[Reader, ...] = ((("processes",), _running),)
_LIVE: tuple[Reader, ...] = (
    (("name",), _one("nvmlDeviceGetName")),
    (("serial",), _one("nvmlDeviceGetSerial")),
    (("ecc_enabled",), lambda nvml, handle: (bool(nvml.nvmlDeviceGetEccMode(handle)[0]),)),
    (("ecc_corrected",), _one("nvmlDeviceGetTotalEccErrors", 0, 0)),
    (("ecc_uncorrected_aggregate",), _one("nvmlDeviceGetTotalEccErrors", 1, 1)),
    (("temperature_c",), _one("nvmlDeviceGetTemperature", 0)),
    (("power_w", "power_limit_w"), _watts),
    (
        ("utilization_percent",),
        lambda nvml, handle: (nvml.nvmlDeviceGetUtilizationRates(handle).gpu,),
    ),
    (("memory_used_mib", "memory_total_mib"), _memory),
    (("throttle_reasons",), _throttle_reasons),
    (("pcie_width",), _one("nvmlDeviceGetCurrPcieLinkWidth")),
    (("pcie_width_max",), _one("nvmlDeviceGetMaxPcieLinkWidth")),
    (("pcie_generation",), _one("nvmlDeviceGetCurrPcieLinkGeneration")),
    (("pcie_generation_max",), _one("nvmlDeviceGetMaxPcieLinkGeneration")),
    (("pcie_replays",), _one("nvmlDeviceGetPcieReplayCounter")),
    (("nvlinks",), _nvlinks),
    (("persistence",), _flag("nvmlDeviceGetPersistenceMode")),
    (("mig",), lambda nvml, handle: (bool(nvml.nvmlDeviceGetMigMode(handle)[0]),)),
)
"""Fields and what reads them, in order: one answer of NVML may fill several."""
