"""The stand-in GPUs of one node: the scene that its NVML library plays."""

from pathlib import Path
from typing import Any

import msgspec

from testbed import nvml
from testbed.errors import TestbedError
from testbed.layout import HostLayout

BUILT = Path("/var/cache/slurm-resilience/nvml")
"""Compiled once for each version of the source."""


class Scene(msgspec.Struct, frozen=True):
    """What NVML says on one node."""

    gpus: tuple[nvml.GpuState, ...]
    system: nvml.SystemState = nvml.SystemState()


def set_healthy(here: HostLayout, count: int) -> None:
    """Give a node its library and so many healthy GPUs."""
    here.nvml.mkdir(exist_ok=True)
    install(here, nvml.build(BUILT))
    show(here, Scene(nvml.h100s(count)))


def install(here: HostLayout, library: Path) -> None:
    """Let new processes on a node load *library*."""
    fresh = here.nvml / f".{nvml.LIBRARY}.new"
    fresh.write_bytes(library.read_bytes())
    fresh.chmod(0o755)
    fresh.replace(here.nvml / nvml.LIBRARY)


def show(here: HostLayout, scene: Scene) -> None:
    """Change what NVML says from its next call on."""
    nvml.write(here.nvml / "state", scene.gpus, scene.system)
    here.scene.write_bytes(msgspec.msgpack.encode(scene))


def shown(here: HostLayout) -> Scene:
    """What NVML says now."""
    return msgspec.msgpack.decode(here.scene.read_bytes(), type=Scene)


class Gpu:
    """One GPU of a node."""

    def __init__(self, here: HostLayout, index: int) -> None:
        self.here = here
        self.index = index

    @property
    def state(self) -> nvml.GpuState:
        """What NVML says of it now."""
        gpus = shown(self.here).gpus
        if not 0 <= self.index < len(gpus):
            raise TestbedError(f"no gpu {self.index}; there are {len(gpus)}, from 0")
        return gpus[self.index]

    def set(self, **changes: Any) -> None:  # noqa: ANN401 - as wide as GpuState's fields
        """
        Change what NVML says of it: any field of `nvml.GpuState`, or

        `ecc_corrected`, `ecc_uncorrected` with one number for both counters; `remap_pending`,
        `remap_failed`; `lost=1`: fallen off the bus; `returns`, `hangs` as in `nvml`.
        """
        before = self.state
        try:
            after = msgspec.convert(
                {**msgspec.structs.asdict(before), **_fields(before, changes)}, nvml.GpuState
            )
        except msgspec.ValidationError as error:
            raise TestbedError(f"gpu {self.index}: {error}") from error
        scene = shown(self.here)
        gpus = [*scene.gpus]
        gpus[self.index] = after
        show(self.here, msgspec.structs.replace(scene, gpus=tuple(gpus)))


def _fields(before: nvml.GpuState, changes: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    rows = before.remapped_rows or (0, 0, False, False)
    for key, value in changes.items():
        match key, value:
            case (("ecc_corrected" | "ecc_uncorrected"), int()):
                fields[key] = (value, value)
            case "remap_pending", _:
                rows = fields["remapped_rows"] = (*rows[:2], bool(value), rows[3])
            case "remap_failed", _:
                rows = fields["remapped_rows"] = (*rows[:3], bool(value))
            case "lost", _:
                fields["returns"] = {"*": nvml.GPU_IS_LOST} if value else {}
            case _ if key in nvml.GpuState.__struct_fields__:
                fields[key] = value
            case _:
                known = sorted(
                    {*nvml.GpuState.__struct_fields__, "remap_pending", "remap_failed", "lost"}
                )
                raise TestbedError(f"gpu: unknown key {key!r}; there are {', '.join(known)}")
    return fields
