"""
What the prolog costs each job: `python -m benchmarks.prolog [--short] [--gpucm FILE]`, as root.

The installed shim, as slurmd runs it, on a node with eight healthy GPUs (the stand-in library
under NVIDIA's own binding) and as many links, every check of the prolog on, beside a bare start of
the same Python. Runs alternate, so that a busy machine weighs on both alike; a figure is a ratio of
medians. With gpucm's `health_checks` installed, its GPU and InfiniBand checks on the same node too.
One JSON line a figure.
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

from benchmarks.hook_node import GPUS, PYTHON, HookNode
from slurm_resilience.places import STATE

SHIM = Path(sys.prefix) / "share" / "slurm-resilience" / "prolog" / "slurm-resilience-prolog"
AGAINST = "python -c pass"
TAIL_RUNS = 200
GPUCM_CHECKS = (
    ["check-nvidia-smi", "--gpu_num", str(GPUS), "-c", "gpu_num", "-c", "row_remap_pending",
     "-c", "row_remap_failed", "-c", "ecc_uncorrected_volatile_total"],
    ["check-ib", "check-ibstat"],
)  # fmt: skip
"""gpucm's commands nearest to what this prolog looks at: a process each."""


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer runs")
    parser.add_argument(
        "--gpucm",
        type=Path,
        metavar="FILE",
        default=shutil.which("health_checks"),
        help="gpucm's health_checks (default: from PATH)",
    )
    asked = parser.parse_args()
    runs, tail = (15, 50) if asked.short else (60, TAIL_RUNS)
    with tempfile.TemporaryDirectory() as folder:
        node = HookNode(Path(folder), SHIM)
        shim, hook = [str(SHIM)], node.environment
        _wall_s(shim, hook)
        prolog_s, python_s = _medians(runs, lambda: _wall_s(shim, hook))
        new_s, python_then_s = _medians(runs // 3, lambda: _wall_s(shim, hook, forget=True))
        walls = statistics.quantiles([_wall_s(shim, hook) for _ in range(tail)], n=100)
        pythons = statistics.quantiles([_wall_s(PYTHON, {}) for _ in range(tail)], n=100)
        prolog_mb, python_mb = _peak_mb(shim, hook), _peak_mb(PYTHON, {})
        if asked.gpucm:
            theirs_s, beside_s = _medians(runs // 3, lambda: _gpucm_s(asked.gpucm, node))
    _print("wall_vs_python", prolog_s / python_s, "ratio", prolog_s / python_s)
    _print("wall_ms", prolog_s * 1000, "ms", prolog_s / python_s)
    _print("p99_vs_p50", walls[98] / walls[49], "ratio", pythons[98] / pythons[49])
    ratio = new_s / python_then_s
    _print("unremembered_wall_vs_python", ratio, "ratio", ratio)
    _print("peak_rss_mb", prolog_mb, "MB", prolog_mb / python_mb)
    if asked.gpucm:
        _print("gpucm.wall_vs_python", theirs_s / beside_s, "ratio", theirs_s / beside_s)


def _gpucm_s(health_checks: Path, node: HookNode) -> float:
    where = ["--log-folder", str(node.folder), "cluster", "prolog"]
    return sum(
        _wall_s([str(health_checks), "--config", os.devnull, *check, *where], node.environment)
        for check in GPUCM_CHECKS
    )


def _medians(runs: int, prolog: Callable[[], float]) -> tuple[float, float]:
    """The prolog's and a bare Python's median, run by turns."""
    pairs = [(prolog(), _wall_s(PYTHON, {})) for _ in range(runs)]
    return (
        statistics.median(pair[0] for pair in pairs),
        statistics.median(pair[1] for pair in pairs),
    )


def _wall_s(
    command: Sequence[str], environment: Mapping[str, str], *, forget: bool = False
) -> float:
    """Seconds that a command takes which succeeds; *forget*: what earlier runs left is gone."""
    if forget:
        shutil.rmtree(STATE, ignore_errors=True)
    began = time.perf_counter()
    subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
    )
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
