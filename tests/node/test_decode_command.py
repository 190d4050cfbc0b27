"""`decode` of what is no plain file, and into what takes nothing: the command as a shell runs it."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.node.conftest import PATIENCE_S

COMMAND = Path(sys.executable).with_name("slurm-resilience")
XID = "NVRM: Xid (PCI:0000:05:00): 79, pid=1, name=p, GPU has fallen off the bus."
DRAIN = "drain  xid 79 0000:05:00.0"


def shell(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    (folder / "kern.log").write_text(XID + "\n")
    return subprocess.run(
        ["/bin/bash", "-c", script.replace("decode", f"{COMMAND} decode")],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("mkfifo pipe; decode pipe", "pipe: a pipe that nobody writes to"),
        ("decode /dev/zero", "/dev/zero: a device"),
        ("decode /dev/urandom", "/dev/urandom: a device"),
        ("decode - < /dev/zero", "-: a device"),
        ("decode - <&-", "-: standard input is closed"),
        ("decode .", ".: Is a directory"),
        ("decode kern.log > /dev/full", "standard output: No space left on device"),
        ("decode kern.log --json > /dev/full", "standard output: No space left on device"),
        ("decode kern.log >&-", "standard output is closed"),
    ],
)
def test_what_cannot_be_read_or_written_is_said_in_one_line(
    script: str, said: str, tmp_path: Path
) -> None:
    """Exit status 2, at once, and no traceback."""
    done = shell(script, tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "script",
    [
        "decode <(cat kern.log)",
        "decode <(sleep 0.3; cat kern.log)",
        "cat kern.log | decode -",
        "decode - < kern.log",
        "decode /dev/stdin < kern.log",
    ],
    ids=["substitution", "a slow one", "a pipe", "stdin", "stdin by name"],
)
def test_a_log_may_come_through_a_pipe(script: str, tmp_path: Path) -> None:
    """As long as somebody writes to it."""
    done = shell(script, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip().startswith(DRAIN)


def test_a_named_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """As long as somebody has it open to write."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ours = os.open(pipe, os.O_RDWR)
    os.write(ours, f"{XID}\n".encode())

    with subprocess.Popen(
        [COMMAND, "decode", pipe], stdout=subprocess.PIPE, text=True
    ) as decode:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while pipe not in opened(decode.pid) and time.monotonic() < deadline:
                pass
        finally:
            os.close(ours)
        told, _ = decode.communicate(timeout=PATIENCE_S)

    assert (decode.returncode, told.strip()[: len(DRAIN)]) == (0, DRAIN)


def opened(process: int) -> set[Path]:
    files = set()
    for one in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            files.add(one.readlink())
    return files


@pytest.mark.parametrize("script", ["decode <(:)", "decode /dev/null", "decode - < /dev/null"])
def test_a_log_may_be_empty(script: str, tmp_path: Path) -> None:
    """Which is no fault of anybody's."""
    done = shell(script, tmp_path)

    assert (done.returncode, done.stdout) == (0, "nothing that tells of a fault\n")


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="needs to read /dev/kmsg")
def test_the_kernels_own_log_has_an_end(tmp_path: Path) -> None:
    """What is there now; what comes later is waited for by nobody."""
    done = shell("decode /dev/kmsg", tmp_path)

    assert done.returncode == 0
