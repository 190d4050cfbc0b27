"""
What a health check costs a node: `python -m benchmarks.health [--short]`, as root.

The installed shim, as slurmd runs it every few minutes, on a healthy node with eight GPUs and as many
links. The processor time of all its processes, beside a bare start of the same Python. One JSON
line a figure.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.hook_node import PYTHON, HookNode

SHIM = Path(sys.prefix) / "share" / "slurm-resilience" / "prolog" / "slurm-resilience-health"

# Probes outlive the hook by a moment and are nobody's children then: they come to the starter.
_STARTER = """
import ctypes, os, resource, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer runs")
    runs = 5 if parser.parse_args().short else 20
    with tempfile.TemporaryDirectory() as folder:
        node = HookNode(Path(folder), SHIM)
        _cpu_s([str(SHIM)], node.environment)
        pairs = [
            (_cpu_s([str(SHIM)], node.environment), _cpu_s(PYTHON, {})) for _ in range(runs)
        ]
    health_s = statistics.median(pair[0] for pair in pairs)
    python_s = statistics.median(pair[1] for pair in pairs)
    line = {
        "bench": "health",
        "figure": "cpu_s",
        "value": round(health_s, 3),
        "unit": "s",
        "against": "python -c pass",
        "ratio": round(health_s / python_s, 1),
    }
    print(json.dumps(line))


def _cpu_s(command: Sequence[str], environment: Mapping[str, str]) -> float:
    done = subprocess.run(
        [PYTHON[0], "-I", "-S", "-c", _STARTER, *command],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    return float(done.stdout)


if __name__ == "__main__":
    main()
