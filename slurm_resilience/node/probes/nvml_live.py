"""
What NVML says of a GPU that changes while it works, and what only the health check has time for:
heat, power, clocks, links, lifetime counts. Part of `nvml`, which hands its binding over.
"""

from __future__ import annotations

from slurm_resilience.node.probes.nvml import flag, one

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from slurm_resilience.node.probes.nvml import Reader

MOST_NVLINKS = 36
_MIB = 1 << 20
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
_SRAM = 7
_SLOWDOWN = 1
_SIGN = 1 << 31
_COLDEST_C, _HOTTEST_C = -55, 200
"""Beyond what silicon is specified for (-55 to 125 °C), and still read from a sensor that works."""
_SM = 1
_NVLINK_CRC_FLIT, _NVLINK_CRC_DATA, _NVLINK_RECOVERY = 38, 45, 59
_OF_LINKS = (163, 219, 162, 215)
"""
NVML_FI_DEV_NVLINK_ERROR_DL_CRC, COUNT_EFFECTIVE_ERRORS, ERROR_DL_RECOVERY,
COUNT_LINK_RECOVERY_EVENTS. Hopper has those of the DL, Blackwell the others.
"""


def _watts(nvml: Any, handle: Any) -> tuple[float, float]:  # noqa: ANN401
    used = nvml.nvmlDeviceGetPowerUsage(handle)
    return used / 1000, nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000


def _celsius(function: str, argument: int) -> Callable[[Any, Any], tuple[int]]:
    """A reader of a temperature, which NVML has as a number without a sign."""

    def read(nvml: Any, handle: Any) -> tuple[int]:  # noqa: ANN401
        told = getattr(nvml, function)(handle, argument)
        signed = (told + _SIGN) % (2 * _SIGN) - _SIGN
        if not _COLDEST_C <= signed <= _HOTTEST_C:
            raise ValueError(f"{signed} °C is no temperature of a GPU")
        return (signed,)

    return read


def _memory(nvml: Any, handle: Any) -> tuple[int, int]:  # noqa: ANN401
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return memory.used // _MIB, memory.total // _MIB


def _throttle_reasons(nvml: Any, handle: Any) -> tuple[int]:  # noqa: ANN401
    try:
        return (nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),)
    except nvml.NVMLError_FunctionNotFound:  # its name until driver 535
        return (nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),)


def _retired(nvml: Any, handle: Any) -> tuple[int, int]:  # noqa: ANN401
    single, double = (len(nvml.nvmlDeviceGetRetiredPages(handle, cause)) for cause in (0, 1))
    return single, double


def _sram_worn(nvml: Any, handle: Any) -> tuple[bool]:  # noqa: ANN401
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, nvml.byref(status))
    return (bool(status.bThresholdExceeded),)


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


def _nvlink_errors(nvml: Any, handle: Any) -> tuple[int | None, int | None]:  # noqa: ANN401
    asked = [_NVLINK_CRC_FLIT, _NVLINK_CRC_DATA, _NVLINK_RECOVERY]
    flit, data, recoveries = (
        _count(nvml, answer) for answer in nvml.nvmlDeviceGetFieldValues(handle, asked)
    )
    if (flit, data, recoveries) == (None,) * 3:
        return _newer_nvlink_errors(nvml, handle)
    return _sum((flit, data)), recoveries


def _newer_nvlink_errors(nvml: Any, handle: Any) -> tuple[int | None, int | None]:  # noqa: ANN401
    """From boards that count by link only; each generation under other names."""
    links = len(_nvlinks(nvml, handle)[0])
    asked = [(field, link) for field in _OF_LINKS for link in range(links)]
    answers = nvml.nvmlDeviceGetFieldValues(handle, asked)
    told = [_count(nvml, answer) for answer in answers]
    sums = [_sum(told[place * links : (place + 1) * links]) for place in range(len(_OF_LINKS))]
    crc, effective, recoveries, events = sums
    return (effective if crc is None else crc, events if recoveries is None else recoveries)


def _sum(counts: Iterable[int | None]) -> int | None:
    told = [count for count in counts if count is not None]
    return sum(told) if told else None


def _count(nvml: Any, answer: Any) -> int | None:  # noqa: ANN401
    if answer.nvmlReturn:
        return None
    if answer.valueType == nvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        return int(answer.value.uiVal)
    return int(answer.value.ullVal)


def _fabric(nvml: Any, handle: Any) -> tuple[int, int, int | None]:  # noqa: ANN401
    try:
        info = nvml.c_nvmlGpuFabricInfo_v2_t()
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, nvml.byref(info))
    except (AttributeError, nvml.NVMLError_FunctionNotFound):  # its name until driver 545
        old = nvml.c_nvmlGpuFabricInfo_t()
        nvml.nvmlDeviceGetGpuFabricInfo(handle, nvml.byref(old))
        return old.state, old.status, None
    return info.state, info.status, info.healthMask


def _inforom(nvml: Any, handle: Any) -> tuple[bool]:  # noqa: ANN401
    try:
        nvml.nvmlDeviceValidateInforom(handle)
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_CORRUPTED_INFOROM:
            return (False,)
        raise
    return (True,)


LIVE: tuple[Reader, ...] = (
    (("temperature_c",), _celsius("nvmlDeviceGetTemperature", 0)),
    (("power_w", "power_limit_w"), _watts),
    (
        ("utilization_percent",),
        lambda nvml, handle: (nvml.nvmlDeviceGetUtilizationRates(handle).gpu,),
    ),
    (("memory_used_mib", "memory_total_mib"), _memory),
    (("throttle_reasons",), _throttle_reasons),
    (("clock_mhz",), one("nvmlDeviceGetClockInfo", _SM)),
)
"""How it works at this moment: what a running job's agent asks every few seconds too."""

THOROUGH: tuple[Reader, ...] = (
    (("name",), one("nvmlDeviceGetName")),
    (("serial",), one("nvmlDeviceGetSerial")),
    (("vbios",), one("nvmlDeviceGetVbiosVersion")),
    (("persistence",), flag("nvmlDeviceGetPersistenceMode")),
    (("ecc_enabled",), lambda nvml, handle: (bool(nvml.nvmlDeviceGetEccMode(handle)[0]),)),
    (("ecc_corrected",), one("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE)),
    (
        ("ecc_uncorrected_aggregate",),
        one("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _AGGREGATE),
    ),
    (
        ("sram_uncorrected_aggregate",),
        one("nvmlDeviceGetMemoryErrorCounter", _UNCORRECTED, _AGGREGATE, _SRAM),
    ),
    (("sram_threshold_exceeded",), _sram_worn),
    (
        ("remap_banks_exhausted",),
        lambda nvml, handle: (nvml.nvmlDeviceGetRowRemapperHistogram(handle).none,),
    ),
    (("retired_single_bit", "retired_double_bit"), _retired),
    (("temperature_slowdown_c",), _celsius("nvmlDeviceGetTemperatureThreshold", _SLOWDOWN)),
    (("temperature_margin_c",), one("nvmlDeviceGetMarginTemperature")),
    (
        ("power_limit_default_w",),
        lambda nvml, handle: (nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000,),
    ),
    (("clock_max_mhz",), one("nvmlDeviceGetMaxClockInfo", _SM)),
    (("application_clock_mhz",), one("nvmlDeviceGetApplicationsClock", _SM)),
    (("application_clock_default_mhz",), one("nvmlDeviceGetDefaultApplicationsClock", _SM)),
    (("pcie_width",), one("nvmlDeviceGetCurrPcieLinkWidth")),
    (("pcie_width_max",), one("nvmlDeviceGetMaxPcieLinkWidth")),
    (("pcie_generation",), one("nvmlDeviceGetCurrPcieLinkGeneration")),
    (("pcie_generation_max",), one("nvmlDeviceGetMaxPcieLinkGeneration")),
    (("pcie_replays",), one("nvmlDeviceGetPcieReplayCounter")),
    (("nvlinks",), _nvlinks),
    (("nvlink_crc_errors", "nvlink_recoveries"), _nvlink_errors),
    (("fabric_state", "fabric_status", "fabric_health"), _fabric),
    (("inforom_valid",), _inforom),
)
"""What takes its time or seldom changes: the health check's alone."""
