"""
How fast and how right `diagnose` is: `python -m benchmarks.diagnose [--short] [--table]`.

Speed: the command itself on a log of one gigabyte to which 16 attempts were appended, on one of a
single attempt, and on the last attempt of ten gigabytes. Right: the share of real logs (tests/logs)
of which class, retry and suspects are all as the table has them, of those that rules were written
from and of those that were set aside. One JSON line; `--table` adds the table of confusion.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.logs.judging import LOGS, SET_ASIDE, Case, cases, diagnosed, faults

GB = 1_000_000_000
ATTEMPTS = 16
START = b"slurm-resilience: attempt %d of job 41 on n1,n2: torchrun train.py\n"
REQUEUED = b"slurmstepd: error: *** JOB 41 ON n1 CANCELLED AT 2026-11-30T03:12:44 DUE TO JOB REQUEUE ***\n"
FATAL = LOGS / "08_cuda_ecc_watchdog.log"


class Run(NamedTuple):
    """One call of the command."""

    wall_s: float
    peak_mb: float


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--short", action="store_true", help="a quarter of the bytes, scaled up"
    )
    parser.add_argument("--table", action="store_true", help="the table of confusion too")
    asked = parser.parse_args()
    part = 0.25 if asked.short else 1.0
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "slurm-41.out")
        appended = _measured(log, int(GB * part), ATTEMPTS)
        single = _measured(log, int(GB * part), 1)
        huge = _measured(log, int(10 * GB * part), int(ATTEMPTS * 10 * part), is_sparse=True)
    figures = {
        "gb_log_s": round(appended.wall_s / part, 2),
        "gb_one_attempt_s": round(single.wall_s / part, 2),
        "ten_gb_last_attempt_s": round(huge.wall_s, 2),
        "peak_rss_mb": round(max(appended.peak_mb, single.peak_mb, huge.peak_mb), 1),
        "right_share": _share(SET_ASIDE, inside=False),
        "set_aside_right_share": _share(SET_ASIDE, inside=True),
        "set_aside_by_draw": {
            f"{draw}01": _share(
                frozenset(file for file in SET_ASIDE if file[0] == draw), inside=True
            )
            for draw in sorted({file[0] for file in SET_ASIDE})
        },
    }
    print(json.dumps({"bench": "diagnose", **figures}))
    if asked.table:
        for title, inside in (("rules were written from", False), ("set aside", True)):
            print(f"\n{title}:\n")
            print("\n".join(_confusion(inside=inside)))


def _measured(log: Path, size: int, attempts: int, *, is_sparse: bool = False) -> Run:
    """The command on a log of *size* bytes; *is_sparse*: all but the last attempt is a hole."""
    lines = b"".join(
        b"[default%d]:[2026-11-30 03:%02d:12] iteration %8d/ 95368 | elapsed time per iteration (ms): %d.1 |"
        b" learning rate: 1.5E-04 | lm loss: 2.%06d | grad norm: 0.%03d | number of nan iterations: 0 |\n"
        % (step % 8, step % 60, step, step % 9973, step * 7919 % 999_983, step % 997)
        for step in range(20_000)
    )
    with log.open("wb") as file:
        for attempt in range(attempts):
            end = size * (attempt + 1) // attempts
            if is_sparse and attempt < attempts - 1:
                file.seek(end)
                continue
            file.write(b"\n" + START % attempt)
            while file.tell() < end:
                file.write(lines)
            file.write(FATAL.read_bytes() if attempt == attempts - 1 else REQUEUED)
    command = [sys.executable, "-m", "slurm_resilience", "diagnose", "--json", str(log)]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - began
    if told["cause"] != "cuda-ecc":
        raise SystemExit(f"wrong verdict on the large log: {told}")
    return Run(wall_s, usage.ru_maxrss / 1024)


def _share(aside: frozenset[str], *, inside: bool) -> float:
    asked = [case for case in cases() if (case.file in aside) == inside]
    return round(sum(1 for case in asked if not faults(case)) / len(asked), 3)


def _confusion(*, inside: bool) -> Iterator[str]:
    """Rows: classes that are right (the one that was said, where it is among them); columns: said."""
    counts: Counter[tuple[str, str]] = Counter()
    for case in cases():
        if (case.file in SET_ASIDE) == inside:
            said = str(diagnosed(case).class_)
            counts[_right(case, said), said] += 1
    names = sorted({name for pair in counts for name in pair})
    yield f"| right \\ said | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for row in names:
        yield f"| {row} | {' | '.join(str(counts[row, column] or '') for column in names)} |"


def _right(case: Case, said: str) -> str:
    return said if said in case.classes else min(case.classes)


if __name__ == "__main__":
    main()
