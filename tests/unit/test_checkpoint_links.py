"""What a copier holds by hard links goes when it does, however it ends."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.keep import remove, remove_unfinished
from slurm_resilience.checkpoint_files.links import kept
from slurm_resilience.errors import CheckpointLoadError
from tests.whole import TENSORS, checkpoint

COPIER = """
import sys
from pathlib import Path
from slurm_resilience.checkpoint_files.links import kept
from slurm_resilience.checkpoint_files.manifest import read
path = Path(sys.argv[1])
with kept(path, read(path)):
    print("kept", flush=True)
    sys.stdin.read()
"""


def links(directory: Path) -> list[Path]:
    """Those of all copiers."""
    return list(directory.glob(".saving-*"))


@pytest.fixture
def copier(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that copies step 1."""
    path = checkpoint(tmp_path, 1)
    command = [sys.executable, "-c", COPIER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"kept\n"
        yield process
        process.kill()


def test_what_a_killed_copier_left_goes_with_the_next_copy(
    tmp_path: Path, copier: "subprocess.Popen[bytes]"
) -> None:
    """It would hold the room of a deleted checkpoint for as long as the training runs."""
    path = checkpoint(tmp_path, 2)
    copier.kill()
    copier.wait()
    assert len(links(tmp_path)) == 1

    with kept(path, manifests.read(path)) as files:
        assert links(tmp_path) == [files]

    assert links(tmp_path) == []


def test_what_another_copier_holds_stays(
    tmp_path: Path, copier: "subprocess.Popen[bytes]"
) -> None:
    """One by hand, on another place, beside that of the training; also once the checkpoint is gone."""
    path = checkpoint(tmp_path, 2)
    (theirs,) = links(tmp_path)
    remove(tmp_path / "step-000000001")

    with kept(path, manifests.read(path)) as files:
        assert set(links(tmp_path)) == {theirs, files}

    assert (theirs / TENSORS).is_file()
    copier.communicate(timeout=60)
    assert links(tmp_path) == []


def test_what_a_killed_copier_left_goes_with_the_next_attempt(
    tmp_path: Path, copier: "subprocess.Popen[bytes]"
) -> None:
    """As all that begins with a dot."""
    copier.kill()
    copier.wait()

    assert len(remove_unfinished(tmp_path)) == 1

    assert links(tmp_path) == []


def test_what_a_copier_left_that_was_killed_before_it_had_a_name_goes_too(
    tmp_path: Path,
) -> None:
    """The folder of its lock is made under another name."""
    dying = 'import os, sys\nsys.addaudithook(lambda event, _: event == "os.rename" and os._exit(0))'
    path = checkpoint(tmp_path, 1)
    subprocess.run([sys.executable, "-c", dying + COPIER, str(path)], check=True)
    assert len(links(tmp_path)) == 1

    assert len(remove_unfinished(tmp_path)) == 1

    assert links(tmp_path) == []


def test_what_was_deleted_before_cannot_be_kept(tmp_path: Path) -> None:
    """One error; nothing is left of it."""
    path = checkpoint(tmp_path, 1)
    manifest = manifests.read(path)
    remove(path)

    with pytest.raises(CheckpointLoadError, match="is gone"), kept(path, manifest):
        pass

    assert links(tmp_path) == []
