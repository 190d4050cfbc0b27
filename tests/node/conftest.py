"""A stand-in NVML for the real binding, and a private machine for the real shims."""

import ctypes
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.node import probing
from slurm_resilience.node.probes import nvml as probe
from testbed import nvml, sysfs
from tests.missing import missing
from tests.stand_ins import Tools

SHARE = Path(sys.prefix) / "share" / "slurm-resilience"
PATIENCE_S = 30.0

Read = Callable[..., Any]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile the stand-in, without the functions that are named."""
    into = tmp_path_factory.mktemp("nvml")
    return lambda *without: nvml.build(into, without=without)


class Scene:
    """What NVML says, and the probe that asks it in a child."""

    def __init__(self, state: Path, build: Callable[..., Path]) -> None:
        self.state = state
        self._build = build

    def show(
        self, gpus: Sequence[nvml.GpuState], system: nvml.SystemState | None = None
    ) -> None:
        nvml.write(self.state, gpus, system)

    def read(
        self, *, without: Sequence[str] = (), timeout_s: float = PATIENCE_S, **arguments: bool
    ) -> Any:  # noqa: ANN401 - as the probe answers
        """The probe's answer; raises what it says where it has none, TimeoutError where it hangs."""
        library = self._build(*without)
        os.environ["STANDIN_NVML"] = str(self.state)

        def ask() -> object:
            ctypes.CDLL(str(library))  # from now on the loader knows it by its name
            return probe.read(**arguments)

        child = probing.start(ask, deadline=time.monotonic() + timeout_s)
        answers = probing.gather({"nvml": child})
        if answers.hung:
            raise TimeoutError
        values, unread = answers.read()
        if unread:
            raise RuntimeError(unread["nvml"])
        return values["nvml"]


@pytest.fixture
def scene(tmp_path: Path, build: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Two healthy H100s, until the test shows something else."""
    monkeypatch.setenv("STANDIN_NVML", str(tmp_path / "state"))
    scene = Scene(tmp_path / "state", build)
    scene.show(nvml.h100s(2))
    return scene


class Machine:
    """
    A machine of the test's own for the real shims: its /etc/slurm-resilience and
    /var/lib/slurm-resilience, its GPUs, kernel log and sysfs. There is no Slurm.
    """

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.etc = folder / "etc"
        self.config = self.etc / "config.yaml"
        self.kmsg = folder / "kmsg"
        self.sysfs = folder / "sys"
        self.boot_id = folder / "boot_id"
        self._scene = folder / "nvml"
        self._library = library
        for path in (self.state, self.etc):
            path.mkdir()
        self.kmsg.write_text("6,1,0,-;Linux version 6.1\n")
        sysfs.write_healthy(self.sysfs)
        self.show(nvml.h100s(2))
        self.configure("")
        self.reboot()

    def show(
        self, gpus: Sequence[nvml.GpuState], system: nvml.SystemState | None = None
    ) -> None:
        nvml.write(self._scene, gpus, system)

    def configure(self, text: str) -> None:
        """Replace the configuration; *text* is what belongs under `node`."""
        body = f"paths: {{kmsg: {self.kmsg}, sysfs: {self.sysfs}}}\nnode: {{{text}}}\n"
        self.config.write_text(body)

    def log(self, text: str) -> None:
        with self.kmsg.open("a") as file:
            file.write(f"4,{100 + len(self.kmsg.read_text())},5000000,-;{text}\n")

    def reboot(self) -> None:
        self.boot_id.write_text(Path("/proc/sys/kernel/random/uuid").read_text())

    def run(
        self,
        shim: Path,
        environment: Mapping[str, str] | None = None,
        *,
        before: str = "",
        within: str = "",
    ) -> "subprocess.CompletedProcess[str]":
        """
        Run *shim* as slurmd does: almost no environment, and whoever holds its output waits.

        *within*: a command that runs it.
        """
        given = {
            "LD_LIBRARY_PATH": str(self._library.parent),
            "STANDIN_NVML": str(self._scene),
            **(environment or {}),
        }
        variables = " ".join(f"{key}={shlex.quote(value)}" for key, value in given.items())
        script = f"""
            mkdir -p {self.folder}/rw
            mount -t tmpfs none {self.folder}/rw
            mkdir {self.folder}/rw/upper {self.folder}/rw/work
            mount -t overlay -o lowerdir=/etc,upperdir={self.folder}/rw/upper,workdir={self.folder}/rw/work none /etc
            mkdir -p /etc/slurm-resilience
            mount --bind {self.etc} /etc/slurm-resilience
            mount -t tmpfs none /var/lib
            mkdir /var/lib/slurm-resilience
            mount --bind {self.state} /var/lib/slurm-resilience
            mount --bind {self.boot_id} /proc/sys/kernel/random/boot_id
            {before}
            exec {within} env -i {variables} {shlex.quote(str(shim))}
        """
        return subprocess.run(
            [
                "/usr/bin/unshare",
                "--mount",
                "--propagation",
                "private",
                "/bin/sh",
                "-ec",
                script,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def hook(
        self, hook: str, *, before: str = "", within: str = "", **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a hook's installed shim, for a job on both GPUs unless *environment* says else."""
        folder = "epilog" if hook == "epilog" else "prolog"
        job = {
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_GPUS": "0,1",
            "SLURMD_NODENAME": "n1",
            **environment,
        }
        return self.run(
            SHARE / folder / f"slurm-resilience-{hook}", job, before=before, within=within
        )


@pytest.fixture
def machine(tmp_path: Path, build: Callable[..., Path]) -> Machine:
    """A healthy machine with two GPUs."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        if "CI" in os.environ:
            pytest.fail("the shims are tested as root, in namespaces")
        missing("needs root, for namespaces")
    return Machine(tmp_path, build())


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    """A folder for other people's commands, empty."""
    return Tools(tmp_path / "bin")
