"""A disk that fails at any one call: a save is right or refused with the reason; nothing sound goes."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.disk_faults import Fault, How, Kind, build, environment
from tests.missing import missing

FAULTS = [
    (Fault(errno.ENOSPC, How.FROM_NOW_ON), 2),
    (Fault(errno.EDQUOT), 4),
    (Fault(errno.EIO), 5),
    (Fault(errno.EROFS, How.FROM_NOW_ON), 5),
    (Fault(errno.EIO, How.HALF), 6),
    (Fault(errno.ENOENT, How.DONE_YET_REFUSED, Kind.RENAMES), 1),
    (Fault(errno.EIO, How.ONCE, Kind.READS), 11),
    (Fault(errno.ESTALE, How.FROM_NOW_ON, Kind.READS), 13),
]
"""And at each how manieth call: `python -m tests.training.failing_disk` with 1 tries all of them."""


def attempts(fault: Fault, stride: int, folder: Path) -> list[dict[str, Any]]:
    """What became of a training with that fault at each of its calls in turn."""
    if shutil.which("gcc") is None:
        missing("gcc is not installed")
    directory, plan = folder / "c", folder / "plan"
    library = build(folder)
    plan.write_bytes(bytes(32))
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.failing_disk", str(directory), str(plan),
         str(fault.error), str(int(fault.how)), str(int(fault.kinds)), str(stride)],
        env=environment(library, plan, directory), cwd=Path(__file__).parents[2],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("fault", "stride"), FAULTS, ids=lambda one: str(one) if isinstance(one, Fault) else ""
)
def test_a_fault_at_any_call_costs_at_most_one_save(
    fault: Fault, stride: int, tmp_path: Path
) -> None:
    """
    The newest sound checkpoint is never lost, what restores is whole, and where a save did not
    count the reason is what the disk said.
    """
    tried = attempts(fault, stride, tmp_path)

    assert len(tried) > 2, "the disk was hardly used"
    assert not tried[-1]["fired"]
    for attempt in tried:
        newest, before = attempt["after"][-1], attempt["before"][-1]
        assert newest >= before, attempt
        assert attempt["unsound"] == [], attempt
        assert attempt["restored"] in (None, [newest + 1, newest]), attempt
        if fault.kinds != Kind.READS:
            assert attempt["said"] or newest == before + 1, attempt
        assert "\n" not in attempt["said"]
        if attempt["said"] and fault.how != How.HALF:
            assert os.strerror(fault.error) in attempt["said"], attempt
