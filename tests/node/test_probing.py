"""Probes that misbehave cost their deadline, and nothing else."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from slurm_resilience.bounded import MOST_BYTES, Child
from slurm_resilience.node import probing
from slurm_resilience.node.probes import disk
from tests.missing import missing

PATIENCE_S = 30.0


def stubborn() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        signal.pause()


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fail() -> None:
    raise OSError(5, "Input/output error", "/dev/kmsg")


def gather(**children: Child) -> probing.Answers:
    return probing.gather(children)


def soon(seconds: float = PATIENCE_S) -> float:
    return time.monotonic() + seconds


def test_answers_come_back_as_they_were_given() -> None:
    """Plain values cross over unchanged, large ones too."""
    value = {"name": "a\n'b'", "numbers": [0, -1, 2.5, None, True], "large": "x" * 300_000}

    answers = gather(one=probing.start(lambda: value, deadline=soon()))

    assert answers.read() == ({"one": value}, {})


def test_one_that_hangs_holds_up_no_other() -> None:
    """It is named as hung, killed though it blocks every signal, and the rest is there."""
    hung = probing.start(stubborn, deadline=soon(0.3))
    quick = probing.start(lambda: 1, deadline=soon())

    answers = gather(hung=hung, quick=quick)

    assert answers.hung == ("hung",)
    assert answers.read() == ({"quick": 1}, {})
    with suppress(ChildProcessError):
        os.waitpid(hung.pid, 0)
    assert not Path(f"/proc/{hung.pid}").exists()


@pytest.mark.parametrize(
    ("probe", "why"), [(fail, "Input/output error"), (crash, "without an answer")]
)
def test_one_that_fails_says_why(probe: object, why: str) -> None:
    """An error's text, or that the child died, becomes the reason for the missing fact."""
    assert callable(probe)

    values, unread = gather(bad=probing.start(probe, deadline=soon())).read()

    assert values == {}
    assert why in unread["bad"]


def test_one_that_talks_without_end_is_stopped() -> None:
    """A kernel log gone mad does not fill the memory of a hook."""
    huge = "x" * (MOST_BYTES + 1)

    values, unread = gather(huge=probing.start(lambda: huge, deadline=soon())).read()

    assert values == {}
    assert "too much" in unread["huge"]


def test_a_child_holds_nothing_of_its_parent() -> None:
    """Whoever reads the hook's output sees its end while a child still hangs."""
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from slurm_resilience.node import probing\n"
        "child = probing.start(lambda: time.sleep(600), deadline=0)\n"
        "print(child.pid, flush=True)"
    )
    package = Path(__file__).parents[2]

    done = subprocess.run(
        [sys.executable, "-c", code, package],
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )

    os.kill(int(done.stdout), signal.SIGKILL)  # it outlived its parent


@pytest.fixture
def hung_mount(tmp_path: Path) -> Iterator[list[str]]:
    """The start of a command that runs where `<tmp_path>` is a file system that never answers."""
    if os.geteuid() != 0:
        missing("needs root, to mount")
    python = [sys.executable, "-m", "testbed.hung_disk", str(tmp_path)]
    server = subprocess.Popen(
        ["/usr/bin/unshare", "--mount", "--propagation", "private", *python],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout
    assert server.stdout.readline() == "hung\n"
    yield ["/usr/bin/nsenter", f"--mount=/proc/{server.pid}/ns/mnt"]
    server.kill()
    server.communicate()


def test_an_unkillable_child_is_abandoned(hung_mount: list[str], tmp_path: Path) -> None:
    """Nobody waits for a child in D state: the hook goes on, and ends."""
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from slurm_resilience.node import probing\n"
        "from slurm_resilience.node.probes import disk\n"
        "until = time.monotonic() + 0.5\n"
        "child = probing.start(disk.read, deadline=until, path=sys.argv[2], proc='/proc', enough_gib=10)\n"
        "print(probing.gather({'disk': child}).hung, child.pid, flush=True)"
    )
    package = Path(__file__).parents[2]

    done = subprocess.run(
        [*hung_mount, sys.executable, "-c", code, package, tmp_path],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    hung, _, pid = done.stdout.rpartition(" ")
    assert hung == "('disk',)"
    assert "State:\tD" in Path(f"/proc/{int(pid)}/status").read_text()


def test_a_disk_is_read_as_df_counts(tmp_path: Path) -> None:
    """A path that is there has its figures, one that is not says so."""
    found = disk.read(str(tmp_path), proc="/proc", enough_gib=1)

    assert 0 <= found["free_gib"] <= 1
    assert found["type"]
    assert found["read_only"] is False
    assert found["mounted"] is False
    assert 0 < found["used_percent"] <= 100
    assert disk.read(str(tmp_path / "none"), proc="/proc", enough_gib=1) == {
        "path": str(tmp_path / "none"),
        "present": False,
    }


MOUNTS = r"""
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
30 22 0:40 / /data rw shared:2 - autofs systemd-1 rw,fd=30
31 30 0:41 / /data/of\040all rw shared:3 - nfs4 filer1:/vol rw
32 31 0:42 / /data/of\040all/scratch rw shared:4 - lustre 10.0.0.1@o2ib:/fs rw
33 22 0:43 / /data2 rw - xfs /dev/nvme0n1 rw
34 33 0:44 / /data2 rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("data/of all", "nfs4"),
        ("data/of all/scratch/run", "lustre"),
        ("data/of all/scratches", "nfs4"),
        ("data2", "tmpfs"),
        ("home", "ext4"),
    ],
)
def test_a_disk_tells_what_kind_of_file_system_it_is_on(
    tmp_path: Path, path: str, kind: str
) -> None:
    """The nearest mount above it, and of several in one place the last."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text(
        MOUNTS.strip().replace(" /data", f" {tmp_path}/data")
    )
    (tmp_path / path).mkdir(parents=True)

    found = disk.read(str(tmp_path / path), proc=str(tmp_path), enough_gib=10)

    assert found["type"] == kind
