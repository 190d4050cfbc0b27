"""A full disk and a read-only one, as the kernel says it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")

SCRIPT = """
import os, sys
from pathlib import Path
import torch
from slurm_resilience.errors import CheckpointSaveError, ResilienceError
from slurm_resilience.training import Checkpoints, Run
mount = Path(sys.argv[1])
state = {"x": torch.zeros(1 << 18)}
run = Run(checkpoints=Checkpoints(mount / "c", every_steps=1, keep=1), state=state)
"""
FULL = f"""{SCRIPT}
run.restore()
run.step(0)
run.step(1)
while [path.name for path in (mount / "c").glob("*step*")] != ["step-000000001"]:
    pass
filler = mount / "filler"
filler.write_bytes(bytes(2 << 20))
run.step(2)
run.step(3)
filler.unlink()
run.step(4)
run.finish()
print(sorted(path.name for path in (mount / "c").glob("*step*")))
"""
REFUSED = f"""{SCRIPT}
if sys.argv[2] == "full":
    try:
        (mount / "filler").write_bytes(bytes(16 << 20))
    except OSError:
        pass
try:
    run.restore()
except ResilienceError as error:
    print(error)
"""

FULL_AT_THE_END = f"""{SCRIPT}
run.restore()
(mount / "filler").write_bytes(bytes(4_000_000))
run.step(0)
try:
    run.finish()
except CheckpointSaveError as error:
    print(repr(error.__cause__), error)
"""


def said(script: str, mount: Path, options: str, *arguments: str) -> str:
    """What *script* prints with a small file system of its own on *mount*."""
    (mount / "c").mkdir(parents=True)
    shell = f'mount -t tmpfs -o {options} none "$0" && exec "$@"'
    ended = subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", shell, str(mount),
         sys.executable, "-c", script, str(mount), *arguments],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return ended.stdout + ended.stderr


def test_a_disk_that_fills_up_costs_saves_and_not_the_training(tmp_path: Path) -> None:
    """The failed save leaves nothing behind, and once there is room again saves count again."""
    text = said(FULL, tmp_path / "mount", "size=4m")

    assert "['step-000000004']" in text
    assert "step 2 is not saved" in text
    assert "No space left on device" in text


@pytest.mark.parametrize(
    ("options", "how", "says"),
    [("size=4m", "full", "No space left on device"), ("ro", "ro", "Read-only file system")],
)
def test_a_disk_that_cannot_be_written_is_refused_at_the_start(
    tmp_path: Path, options: str, how: str, says: str
) -> None:
    """One line that names the directory, before the first step."""
    text = said(REFUSED, tmp_path / "mount", options, how)

    assert text.count("\n") == 1
    assert says in text
    assert str(tmp_path / "mount" / "c") in text


def test_a_last_save_that_finds_no_room_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    """What the system said is its cause, and it claims nothing about a training that has ended."""
    text = said(FULL_AT_THE_END, tmp_path / "mount", "size=4m")

    assert "OSError(28, 'No space left on device') step 0 is not saved" in text
    assert f"free some space for {tmp_path / 'mount' / 'c'}; saved last: nothing" in text
    assert "training goes on" not in text
