"""
What NVML says of the GPUs. The only module that knows pynvml, and it is imported late: in the
child that asks, never in a hook itself.
"""

from __future__ import annotations

import sys
from types import ModuleType

from slurm_resilience.node.probes.files import NOT_SUPPORTED

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Reader = tuple[tuple[str, ...], Callable[[Any, Any], tuple[Any, ...]]]
    """Fields, and (pynvml, handle) -> their values."""


RECOVERY_ACTION_FIELD = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, which older bindings do not name."""
_ABSENT = (2, 3, 13, 25, 26)
"""
NVML_ERROR_INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, DEPRECATED:
this board or driver has no such thing. The questions are fixed, so an argument that is invalid is one
that this driver does not know.
"""
_NOTHING_TO_TELL = (6, 21, 27, 29)
"""NVML_ERROR_NOT_FOUND, NO_DATA, NOT_READY, INVALID_STATE: likewise, but not where a fault is looked
for."""
_MIB = 1 << 20


def read(
    *, live: bool = False, thorough: bool = False, processes: bool = False
) -> dict[str, Any]:
    """
    All GPUs, as `facts.NodeFacts` names things.

    Faults only, which stay as they are on a healthy node; with *live* also load, power and heat,
    with *thorough* links, modes and lifetime counts, with *processes* who uses each GPU.
    """
    nvml = _binding()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return {"nvml_error": _name(error)}
    readers: dict[Reader, tuple[int, ...]]
    readers = dict.fromkeys(_FAULTS + (_PROCESSES if processes else ()), _ABSENT)
    if live or thorough:  # not for the prolog, which has no use for what that imports
        from slurm_resilience.node.probes.nvml_live import LIVE, THOROUGH  # noqa: PLC0415

        more = (LIVE if live else ()) + (THOROUGH if thorough else ())
        readers |= dict.fromkeys(more, _ABSENT + _NOTHING_TO_TELL)
    try:
        return {
            "driver_version": nvml.nvmlSystemGetDriverVersion(),
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


def _gpu(nvml: Any, index: int, readers: Mapping[Reader, tuple[int, ...]]) -> dict[str, Any]:  # noqa: ANN401
    """*readers*, and the errors that mean to each that there is nothing to read."""
    gpu: dict[str, Any] = {"index": index}
    unread: dict[str, str] = {}
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        for reader, absent in readers.items():
            values, missing = _ask(nvml, handle, reader, absent)
            gpu |= values
            unread |= missing
    except nvml.NVMLError_GpuIsLost:
        gpu["lost"] = True
    except nvml.NVMLError as error:
        unread["handle"] = _name(error)
        if error.value == nvml.NVML_ERROR_RESET_REQUIRED:
            gpu["reset_required"] = True
    return {**gpu, "unread": unread}


def _ask(
    nvml: Any,  # noqa: ANN401
    handle: Any,  # noqa: ANN401
    reader: Reader,
    absent: tuple[int, ...],
) -> tuple[dict[str, Any], dict[str, str]]:
    """What one reader has read, and why it has not; raises only where the GPU is lost."""
    fields, read_values = reader
    marks = {}
    try:
        values = read_values(nvml, handle)
    except nvml.NVMLError_GpuIsLost:
        raise
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_RESET_REQUIRED:
            marks["reset_required"] = True
        why = NOT_SUPPORTED if error.value in absent else _name(error)
    except AttributeError:  # an older binding has no such function
        why = NOT_SUPPORTED
    except ValueError as error:  # a dying card's text is no text
        why = str(error)
    else:
        told = dict(zip(fields, values, strict=True))
        missing = dict.fromkeys((name for name in fields if told[name] is None), NOT_SUPPORTED)
        return {name: told[name] for name in fields if name not in missing}, missing
    return marks, dict.fromkeys(fields, why)


def one(function: str, *arguments: Any) -> Callable[[Any, Any], tuple[Any, ...]]:  # noqa: ANN401
    """A reader of one value: what *function* answers."""
    return lambda nvml, handle: (getattr(nvml, function)(handle, *arguments),)


def flag(function: str) -> Callable[[Any, Any], tuple[bool]]:
    """A reader of one yes or no."""
    return lambda nvml, handle: (bool(getattr(nvml, function)(handle)),)


def _rows(nvml: Any, handle: Any) -> tuple[Any, ...]:  # noqa: ANN401
    _, uncorrected, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return uncorrected, bool(pending), bool(failed)


def _recovery_action(nvml: Any, handle: Any) -> tuple[int]:  # noqa: ANN401
    (field,) = nvml.nvmlDeviceGetFieldValues(handle, [RECOVERY_ACTION_FIELD])
    if field.nvmlReturn:
        raise nvml.NVMLError(field.nvmlReturn)
    return (field.value.uiVal,)


def _mig(nvml: Any, handle: Any) -> tuple[bool, list[str]]:  # noqa: ANN401
    if not nvml.nvmlDeviceGetMigMode(handle)[0]:
        return False, []
    uuids = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except (nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):
            continue  # nothing was cut out at this place
        uuids.append(nvml.nvmlDeviceGetUUID(device))
    return True, uuids


def _running(nvml: Any, handle: Any) -> tuple[list[dict[str, Any]]]:  # noqa: ANN401
    found = _processes(nvml, handle, "Compute")
    for kind in ("MPSCompute", "Graphics"):
        try:
            more = _processes(nvml, handle, kind)
        except nvml.NVMLError as error:
            if error.value not in _ABSENT:
                raise
        else:
            drawing = {"draws": True} if kind == "Graphics" else {}
            found = {pid: {**one, **drawing} for pid, one in more.items()} | found
    return (list(found.values()),)


def _processes(nvml: Any, handle: Any, kind: str) -> dict[int, dict[str, Any]]:  # noqa: ANN401
    # By their versions: the binding's own choice among them fails with no NVML error.
    function = f"nvmlDeviceGet{kind}RunningProcesses"
    try:
        found = getattr(nvml, f"{function}_v3")(handle)
    except nvml.NVMLError_FunctionNotFound:  # the driver is older than 510
        found = getattr(nvml, f"{function}_v2")(handle)
    return {
        one.pid: {"pid": one.pid, "memory_mib": one.usedGpuMemory and one.usedGpuMemory // _MIB}
        for one in found
    }


_FAULTS: tuple[Reader, ...] = (
    (("uuid",), one("nvmlDeviceGetUUID")),
    (("pci",), lambda nvml, handle: (nvml.nvmlDeviceGetPciInfo(handle).busId,)),
    (("minor",), one("nvmlDeviceGetMinorNumber")),
    (("ecc_uncorrected",), one("nvmlDeviceGetTotalEccErrors", 1, 0)),
    (("remapped_uncorrected", "remap_pending", "remap_failed"), _rows),
    (("retired_pending",), flag("nvmlDeviceGetRetiredPagesPendingStatus")),
    (("recovery_action",), _recovery_action),
    (("mig", "mig_devices"), _mig),
)
_PROCESSES: tuple[Reader, ...] = ((("processes",), _running),)
"""Fields and what reads them, in order: one answer of NVML may fill several."""
