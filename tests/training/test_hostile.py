"""Damage at any place, and files made to harm: refused in one line, or never noticed to matter."""

import os
import random
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.listing import directory_name, found
from slurm_resilience.checkpoint_files.quarantine import put_aside
from slurm_resilience.cli import main
from slurm_resilience.training import Checkpoints, Run
from tests.missing import missing
from tests.training.jobs import Level
from tests.training.three_saves import restored, saved

FILES = ["rank-00000.tensors", "rank-00000.values", "index.json", "manifest.json"]

REMOUNTED = """
import subprocess, sys
from pathlib import Path
import torch
from slurm_resilience.errors import CheckpointSaveError
from slurm_resilience.training import Checkpoints, Run
mount = Path(sys.argv[1])
run = Run(checkpoints=Checkpoints(mount / "c", every_steps=1), state={"x": torch.zeros(1 << 18)})
run.step(run.restore())
while not (mount / "c" / "step-000000000").exists():
    pass
device = Path(subprocess.check_output(["findmnt", "-no", "SOURCE", mount], text=True).strip()).name
Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1")
run.step(1)
run.step(2)
try:
    run.finish()
except CheckpointSaveError as error:
    print("final:", error)
print(sorted(path.name for path in (mount / "c").glob("step-*")))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of the steps 1, 3 and 5."""
    return saved(tmp_path_factory.mktemp("made") / "c")


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(made, tmp_path / "c"))


def signed(checkpoint: Path, **changes: object) -> None:
    """Change the manifest and its digest, as one who means harm would."""
    manifest = msgspec.structs.replace(manifests.read(checkpoint), **changes)
    text = msgspec.json.encode(manifest)
    sealed = b'{"crc32":%d,"manifest":%s}' % (zlib.crc32(text), text)
    (checkpoint / manifests.NAME).write_bytes(sealed)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(4))
def test_damage_at_any_place_of_any_file_is_found(
    directory: Path, name: str, seed: int
) -> None:
    """A bit that flips or bytes that are missing; the checkpoint before is used."""
    path, chance = directory / directory_name(5) / name, random.Random(f"{name} {seed}")
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    if chance.random() < 0.7:
        data[at] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    else:
        path.write_bytes(data[:at])

    assert restored(directory) == (4, 3)
    assert len(put_aside(directory)) == 1


ABSURD: dict[str, dict[str, object]] = {
    "more ranks than there are atoms": {"world_size": 10**30},
    "more ranks than files have names for": {"world_size": 10_000_000},
    "a step that no counter holds": {"step": 10**30},
    "larger than any disk": {
        "files": {
            name: manifests.File(size_bytes=1 << 62, crc32=1) for name in FILES if name != "manifest.json"
        }
    },
    "larger than any number for it": {
        "files": {name: manifests.File(size_bytes=10**30, crc32=1) for name in FILES if name != "manifest.json"}
    },
    "no files": {"files": {}},
}  # fmt: skip


@pytest.mark.parametrize("changes", ABSURD.values(), ids=ABSURD)
def test_absurd_numbers_in_a_manifest_cost_nothing(
    directory: Path, changes: dict[str, object]
) -> None:
    """No memory is taken for them; the checkpoint before is used."""
    signed(directory / directory_name(5), **changes)

    assert restored(directory) == (4, 3)


@pytest.mark.parametrize(
    "changes",
    [{"saved_at": 1e300}, {"saved_at": -1e300}, {"took_s": 1e308}, {"step": 1 << 62}, {"job": "\x1b[2J\n"}],
    ids=["a far future", "a far past", "took for ever", "a far step", "speaks to the terminal"],
)  # fmt: skip
@pytest.mark.parametrize("what", ["list", "verify"])
def test_absurd_numbers_are_listed(
    directory: Path,
    changes: dict[str, object],
    what: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As well as they can be; the other checkpoints are listed too."""
    signed(directory / directory_name(5), **changes)

    status = main(["checkpoint", what, str(directory)])

    out = capsys.readouterr().out
    assert status in {0, 1}
    assert len(out.splitlines()) == 4
    assert len(out) < 800
    assert "\x1b" not in out


@pytest.mark.parametrize("shift_s", [-1e9, 1e9], ids=["set back", "set ahead"])
def test_a_clock_that_was_wrong_does_not_matter(directory: Path, shift_s: float) -> None:
    """Order goes by steps: neither the newest nor what is deleted depends on the time."""
    oldest = directory / directory_name(1)
    signed(oldest, saved_at=manifests.read(oldest).saved_at + shift_s)
    os.utime(oldest, (1, 1))
    os.utime(directory / directory_name(5), (1 << 33, 1 << 33))

    assert restored(directory) == (6, 5)
    assert main(["checkpoint", "prune", str(directory), "--keep", "1"]) == 0
    assert [entry.path.name for entry in found(directory)] == [directory_name(5)]


Plant = Callable[[Path, Path], None]


def plant_file(directory: Path, _: Path) -> None:
    """A file where an unfinished save would be a directory."""
    (directory / ".saving-step-000000009-x").write_text("x")


PLANTED: dict[str, Plant] = {
    "a link to a folder, as an old checkpoint": lambda directory, other: (
        directory / directory_name(0)
    ).symlink_to(other),
    "a link as an unfinished save": lambda directory, other: (
        directory / ".saving-step-000000009-x"
    ).symlink_to(other),
    "a file as an unfinished save": plant_file,
    "a link as a removal": lambda directory, other: (
        directory / ".removing-step-000000000-1"
    ).symlink_to(other),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_nothing_is_deleted_through_a_link(
    directory: Path, plant: Plant, tmp_path: Path
) -> None:
    """Training goes on, saves and deletes old ones; the folder that the link names is as it was."""
    other = tmp_path / "other"
    shutil.copytree(directory / directory_name(1), other)
    before = sorted(path.name for path in other.iterdir())
    plant(directory, other)

    model = Level()
    run = Run(checkpoints=Checkpoints(directory, every_steps=1, keep=1), state={"model": model})
    for step in range(run.restore(), 8):
        model.rise(step)
        run.step(step)
    run.finish()

    assert sorted(path.name for path in other.iterdir()) == before
    assert restored(directory) == (8, 7)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_file_system_that_the_kernel_turns_read_only_costs_saves_alone(
    tmp_path: Path,
) -> None:
    """Training goes on to its end, which says that the last step is not saved, and why."""
    if shutil.which("mkfs.ext4") is None:
        missing("mkfs.ext4 is not installed")
    mount, image = tmp_path / "mount", tmp_path / "image"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    shell = 'mount -o loop,errors=remount-ro "$0" "$1" && shift && exec "$@"'

    ended = subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", shell, str(image), str(mount),
         sys.executable, "-c", REMOUNTED, str(mount)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    assert "final: step 2 is not saved" in ended.stdout
    assert "Read-only file system" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "['step-000000000']"
