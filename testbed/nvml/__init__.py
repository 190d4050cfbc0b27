"""
A stand-in for NVIDIA's management library, and the file that says what it answers.

The unpatched `pynvml` loads it as it would load the real one. `build` compiles it, `write` sets
the scene; a running process sees a new scene at its next call.

For a whole node: bind a directory holding `state` (and the library) at `DIRECTORY` in the node's
mount namespace. It must be the directory, because `write` replaces the file. Where the loader
looks is settled by `loader_cache`, bound at /etc/ld.so.cache. For one process: the variables
LD_LIBRARY_PATH and STANDIN_NVML (the state file).
"""

import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

DIRECTORY = Path("/run/testbed/nvml")
STATE = DIRECTORY / "state"
LIBRARY = "libnvidia-ml.so.1"
SOURCE = Path(__file__).with_name("libnvidia-ml.c")
PARTS = (SOURCE, *sorted(SOURCE.parent.glob("*.h")))

CORRUPTED_INFOROM = 14
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18
NOT_SUPPORTED = 3
FUNCTION_NOT_FOUND = 13
UNKNOWN = 999

RECOVERY_ACTION_FIELD = 230
NVLINK_CRC_FLIT, NVLINK_CRC_DATA, NVLINK_REPLAY, NVLINK_RECOVERY = 38, 45, 52, 59
"""NVML_FI_DEV_NVLINK_…_COUNT_TOTAL"""
SRAM_AGGREGATE = (1, 1, 7)
"""Where `ecc_locations` keeps uncorrected errors of the SRAM, over its lifetime."""
FABRIC_NOT_STARTED, FABRIC_IN_PROGRESS, FABRIC_COMPLETED = 1, 2, 3

GIB = 1 << 30


class GpuState(msgspec.Struct, frozen=True):
    """What NVML says of one GPU; None: not supported. The defaults are a healthy, idle H100."""

    uuid: str
    pci: str
    """As NVML writes it: `00000000:1B:00.0`."""
    minor: int | None = 0
    name: str | None = "NVIDIA H100 80GB HBM3"
    serial: str | None = "1650000000000"
    vbios: str | None = "96.00.74.00.01"
    persistence: bool | None = True
    ecc_enabled: bool | None = True
    ecc_corrected: tuple[int, int] | None = (0, 0)
    """Volatile, aggregate."""
    ecc_uncorrected: tuple[int, int] | None = (0, 0)
    ecc_locations: Mapping[tuple[int, int, int], int] = msgspec.field(
        default_factory=lambda: {SRAM_AGGREGATE: 0}
    )
    """NVML's numbers of error type, counter type and memory location -> count."""
    sram_exceeded: bool | None = False
    """More errors in its SRAM than its own limit."""
    remapped_rows: tuple[int, int, bool, bool] | None = (0, 0, False, False)
    """Corrected, uncorrected, pending, failed."""
    remap_banks: tuple[int, int, int, int, int] | None = (2560, 0, 0, 0, 0)
    """Banks of memory by spare rows left: all, many, some, few, none."""
    retired_pages: tuple[int, int] | None = None
    """By single-bit and double-bit errors; cards before Ampere have them instead of remapping."""
    retired_pending: bool | None = None
    temperature_c: int | None = 34
    temperature_thresholds: Mapping[int, int] = msgspec.field(
        default_factory=lambda: {0: 95, 1: 92, 3: 87}
    )
    """NVML_TEMPERATURE_THRESHOLD_…: 0 shutdown, 1 slowdown, 3 greatest in operation."""
    temperature_margin_c: int | None = 53
    power_mw: int | None = 71_000
    power_limit_mw: int | None = 700_000
    power_limit_default_mw: int | None = 700_000
    utilization: tuple[int, int] | None = (0, 0)
    """Percent of time: GPU, memory."""
    memory_bytes: tuple[int, int] | None = (80 * GIB, 0)
    """Total, used."""
    clocks_event_reasons: int | None = 1
    clock_mhz: tuple[int, int] | None = (345, 1980)
    """Of the SMs: now, and the greatest."""
    application_clock_mhz: tuple[int, int] | None = (1980, 1980)
    """Of the SMs: set, and the default."""
    pcie: tuple[int, int, int, int] | None = (16, 5, 16, 5)
    """Width, generation, greatest width, greatest generation."""
    pcie_replays: int | None = 0
    nvlinks: tuple[bool, ...] | None = (True,) * 18
    fabric: tuple[int, int, int] | None = (FABRIC_COMPLETED, 0, 0xAA)
    """State, status, health mask: each fault has two bits, 2 for "no"."""
    mig_mode: tuple[bool, bool] | None = (False, False)
    """Current, pending."""
    mig_devices: tuple[str, ...] = ()
    """Their UUIDs."""
    fields: Mapping[int, int] = msgspec.field(
        default_factory=lambda: {
            RECOVERY_ACTION_FIELD: 0,
            **dict.fromkeys(
                (NVLINK_CRC_FLIT, NVLINK_CRC_DATA, NVLINK_REPLAY, NVLINK_RECOVERY), 0
            ),
        }
    )
    """NVML_FI_… -> value."""
    link_fields: Mapping[tuple[int, int], int] = {}
    """NVML_FI_… and number of an NVLink -> value."""
    processes: tuple[tuple[int, int], ...] = ()
    """Process id and bytes of GPU memory."""
    graphics_processes: tuple[tuple[int, int], ...] = ()
    mps_processes: tuple[tuple[int, int], ...] = ()
    returns: Mapping[str, int] = {}
    """Function (as in NVML's header, without `_v2`) or `*` -> NVML_ERROR_…"""
    hangs: Mapping[str, str] = {}
    """Function that never returns -> a path it looks at first, or the empty string."""


class SystemState(msgspec.Struct, frozen=True):
    """What NVML says of the machine."""

    driver_version: str = "550.54.15"
    nvml_version: str = "12.550.54.15"
    returns: Mapping[str, int] = {}
    hangs: Mapping[str, str] = {}


def h100s(count: int) -> tuple[GpuState, ...]:
    """So many healthy H100s."""
    return tuple(
        GpuState(
            uuid=f"GPU-{index:08x}-0000-0000-0000-000000000000",
            pci=f"00000000:{0x1B + 0x10 * index:02X}:00.0",
            minor=index,
            serial=f"165000000000{index}",
        )
        for index in range(count)
    )


def geforce(index: int = 0) -> GpuState:
    """A consumer card: what only data-centre cards have is not supported."""
    return GpuState(
        uuid=f"GPU-{index:08x}-2080-0000-0000-000000000000",
        pci=f"00000000:{0x01 + index:02X}:00.0",
        minor=index,
        name="NVIDIA GeForce RTX 2080 Ti",
        serial=None,
        ecc_enabled=None,
        ecc_corrected=None,
        ecc_uncorrected=None,
        ecc_locations={},
        sram_exceeded=None,
        remapped_rows=None,
        remap_banks=None,
        memory_bytes=(11 * GIB, 0),
        temperature_margin_c=None,
        power_limit_mw=250_000,
        power_limit_default_mw=250_000,
        application_clock_mhz=None,
        pcie=(16, 1, 16, 3),
        pcie_replays=None,
        nvlinks=None,
        fabric=None,
        mig_mode=None,
        fields={},
    )


def write(path: Path, gpus: Sequence[GpuState], system: SystemState | None = None) -> None:
    """Set the scene: replace the state file *path* in one step."""
    lines = list(_system_lines(system or SystemState()))
    for gpu in gpus:
        lines += ["gpu", *_gpu_lines(gpu)]
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    text = "\n".join(lines) + "\n"
    fresh.write_bytes(
        text.encode("utf-8", "surrogateescape")
    )  # "\udcff": a byte that is no text
    fresh.replace(path)


def build(into: Path, *, without: Sequence[str] = ()) -> Path:
    """
    Compile the library and return its path: `<into>/<hash of what was compiled>/libnvidia-ml.so.1`.

    It is compiled once for the same source. *without* names functions, as the library exports
    them, that it then lacks, as an old driver does.
    """
    options = [f"-D{name}=absent_{name}" for name in without]
    text = b"".join(part.read_bytes() for part in PARTS)
    digest = hashlib.sha256(text + " ".join(options).encode()).hexdigest()[:12]
    library = into / digest / LIBRARY
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        fresh = library.with_name(f"{os.getpid()}.so")
        shape = ["-std=gnu11", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}"]
        command = ["/usr/bin/gcc", *shape, *options, "-o", str(fresh), str(SOURCE)]
        subprocess.run(command, check=True)
        fresh.replace(library)
    return library


def loader_cache(into: Path) -> Path:
    """
    A cache for the dynamic loader, `<into>/ld.so.cache`, that also knows `DIRECTORY`'s library.

    To be called where `DIRECTORY` is already bound: the loader's tool looks at the file.
    """
    configuration = into / "ld.so.conf"
    configuration.write_text(f"include /etc/ld.so.conf\n{DIRECTORY}\n", encoding="utf-8")
    cache = into / "ld.so.cache"
    command = ["/sbin/ldconfig", "-X", "-C", str(cache), "-f", str(configuration)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return cache


def _system_lines(system: SystemState) -> Iterator[str]:
    yield f"driver_version {system.driver_version}"
    yield f"nvml_version {system.nvml_version}"
    yield from _faults(system)


def _gpu_lines(gpu: GpuState) -> Iterator[str]:
    values = {
        "uuid": gpu.uuid,
        "pci": gpu.pci,
        "minor": gpu.minor,
        "name": gpu.name,
        "serial": gpu.serial,
        "vbios": gpu.vbios,
        "persistence": gpu.persistence,
        "ecc_mode": None if gpu.ecc_enabled is None else (gpu.ecc_enabled, gpu.ecc_enabled),
        "sram_exceeded": gpu.sram_exceeded,
        "remapped_rows": gpu.remapped_rows,
        "remap_banks": gpu.remap_banks,
        "retired_pages": gpu.retired_pages,
        "retired_pending": gpu.retired_pending,
        "temperature": gpu.temperature_c,
        "power_mw": gpu.power_mw,
        "power_limit_mw": gpu.power_limit_mw,
        "power_limit_default_mw": gpu.power_limit_default_mw,
        "temperature_margin": gpu.temperature_margin_c,
        "clock": gpu.clock_mhz,
        "application_clock": gpu.application_clock_mhz,
        "fabric": gpu.fabric,
        "mig_devices": gpu.mig_devices or None,
        "utilization": gpu.utilization,
        "memory": gpu.memory_bytes,
        "clocks_event_reasons": gpu.clocks_event_reasons,
        "pcie": gpu.pcie,
        "pcie_replays": gpu.pcie_replays,
        "nvlinks": gpu.nvlinks,
        "mig_mode": gpu.mig_mode,
    }
    for error_type, counts in enumerate((gpu.ecc_corrected, gpu.ecc_uncorrected)):
        for counter, count in enumerate(counts or ()):
            values[f"ecc.{error_type}.{counter}"] = count
    for place, count in gpu.ecc_locations.items():
        values["ecc." + ".".join(map(str, place))] = count
    values |= {f"field.{number}": value for number, value in gpu.fields.items()}
    values |= {
        f"field.{number}.{link}": value for (number, link), value in gpu.link_fields.items()
    }
    values |= {
        f"temperature_threshold.{kind}": value
        for kind, value in gpu.temperature_thresholds.items()
    }
    yield from (f"{key} {_text(value)}" for key, value in values.items() if value is not None)
    for kind, found in (
        ("process", gpu.processes),
        ("graphics_process", gpu.graphics_processes),
        ("mps_process", gpu.mps_processes),
    ):
        yield from (f"{kind} {pid} {used}" for pid, used in found)
    yield from _faults(gpu)


def _faults(state: GpuState | SystemState) -> Iterator[str]:
    yield from (f"return.{function} {code}" for function, code in state.returns.items())
    yield from (f"hang.{function} {path}" for function, path in state.hangs.items())


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(_text(item) for item in value)
    return str(int(value) if isinstance(value, bool) else value)
