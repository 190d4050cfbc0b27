"""
What the prolog costs each job: `python -m benchmarks.prolog [--short]`, as root.

The installed shim, as slurmd runs it, on a node with eight healthy GPUs (the stand-in library
under NVIDIA's own binding), beside a bare start of the same Python. Runs alternate, so that a
busy machine weighs on both alike; a figure is a ratio of medians. One JSON line a figure.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slurm_resilience.places import STATE
from testbed import nvml
from testbed.namespaces import NEW_MOUNTS, PRIVATE, RECURSIVE, mount, unshare

GPUS = 8
SHIM = Path(sys.prefix) / "share" / "slurm-resilience" / "prolog" / "slurm-resilience-prolog"
PYTHON = [f"{sys.prefix}/bin/python", "-c", "pass"]
AGAINST = "python -c pass"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer runs")
    runs = 15 if parser.parse_args().short else 60
    if os.geteuid() != 0:
        sys.exit(
            "benchmarks.prolog: a prolog runs as root, with its own files; run this as root"
        )
    if not SHIM.exists():
        sys.exit(f"benchmarks.prolog: {SHIM} not found; pip install this project first")
    _keep_to_ourselves()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        nvml.write(state, nvml.h100s(GPUS))
        library = nvml.build(Path(folder))
        hook = {
            "LD_LIBRARY_PATH": str(library.parent),
            "STANDIN_NVML": str(state),
            "SLURM_JOB_ID": "1",
            "SLURM_JOB_GPUS": ",".join(map(str, range(GPUS))),
        }
        shim = [str(SHIM)]
        _wall_s(shim, hook)
        prolog_s, python_s = _medians(runs, lambda: _wall_s(shim, hook))
        new_s, python_then_s = _medians(runs // 3, lambda: _wall_s(shim, hook, forget=True))
        prolog_mb, python_mb = _peak_mb(shim, hook), _peak_mb(PYTHON, {})
    _print("wall_vs_python", prolog_s / python_s, "ratio", prolog_s / python_s)
    _print("wall_ms", prolog_s * 1000, "ms", prolog_s / python_s)
    ratio = new_s / python_then_s
    _print("unremembered_wall_vs_python", ratio, "ratio", ratio)
    _print("peak_rss_mb", prolog_mb, "MB", prolog_mb / python_mb)


def _medians(runs: int, prolog: Callable[[], float]) -> tuple[float, float]:
    """The prolog's and a bare Python's median, run by turns."""
    pairs = [(prolog(), _wall_s(PYTHON, {})) for _ in range(runs)]
    return (
        statistics.median(pair[0] for pair in pairs),
        statistics.median(pair[1] for pair in pairs),
    )


def _keep_to_ourselves() -> None:
    """Hide what this machine's own hooks keep, and its configuration, from these runs."""
    unshare(NEW_MOUNTS)
    mount("none", Path("/"), flags=PRIVATE | RECURSIVE)
    for path in (Path("/var/lib"), Path("/etc/slurm-resilience")):
        if path.exists():
            mount("tmpfs", path, "tmpfs")


def _wall_s(
    command: Sequence[str], environment: Mapping[str, str], *, forget: bool = False
) -> float:
    """Seconds that a command takes which succeeds; *forget*: what earlier runs left is gone."""
    if forget:
        shutil.rmtree(STATE, ignore_errors=True)
    began = time.perf_counter()
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _peak_mb(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Megabytes of the largest process of a command, at its largest."""
    # The kernel counts what a process held before it became this command as well, so a small one
    # starts it, not this one.
    starter = (
        "import os, sys\n"
        "child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n"
        "print(os.wait4(child, 0)[2].ru_maxrss)"
    )
    done = subprocess.run(
        [PYTHON[0], "-I", "-S", "-c", starter, *command],
        env=environment, capture_output=True, check=True,
    )  # fmt: skip
    return int(done.stdout) / 1024


def _print(figure: str, value: float, unit: str, ratio: float) -> None:
    line = {
        "bench": "prolog",
        "figure": figure,
        "value": round(value, 3),
        "unit": unit,
        "against": AGAINST,
        "ratio": round(ratio, 3),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
