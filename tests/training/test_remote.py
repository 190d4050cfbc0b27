"""Copies in object storage: a real HTTP server that speaks S3, and its faults."""

import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.copies import copy_newest
from slurm_resilience.checkpoint_files.fetching import fetch_newest
from slurm_resilience.checkpoint_files.listing import directory_name, found, look, problems
from slurm_resilience.checkpoint_files.store import Store
from slurm_resilience.checkpoint_files.stored import copied
from slurm_resilience.cli import main
from slurm_resilience.errors import CheckpointCopyError, UsageError
from tests.training.ranks import wait_for
from tests.training.s3_server import S3
from tests.training.three_saves import restored, saved


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Checkpoints of the steps 1, 3 and 5."""
    return saved(tmp_path / "c")


def damage(path: Path) -> None:
    """Change one bit in the middle."""
    with path.open("r+b") as file:
        file.seek(12_345)
        byte = file.read(1)[0]
        file.seek(12_345)
        file.write(bytes([byte ^ 1]))


def test_what_was_copied_comes_back_when_the_directory_is_gone(
    store: Store, directory: Path
) -> None:
    """Bit for bit, and the training goes on from there."""
    name = copy_newest(directory, store, keep=2)
    shutil.rmtree(directory)
    directory.mkdir()

    path = fetch_newest(store, directory)

    assert path
    assert name.startswith(f"{directory_name(5)}-")
    assert not list(problems(look(path)))
    assert [entry.path for entry in found(directory)] == [path]
    assert restored(directory) == (6, 5)
    assert not list(directory.glob(".saving-*"))


def test_the_newest_few_copies_stay(store: Store, directory: Path) -> None:
    """The same one is not sent twice."""
    newest, middle = directory / directory_name(5), directory / directory_name(3)
    hidden = [path.rename(directory / f"hidden-{path.name}") for path in (newest, middle)]
    copy_newest(directory, store, keep=2)
    hidden[1].rename(middle)
    copy_newest(directory, store, keep=2)
    copy_newest(directory, store, keep=2)
    hidden[0].rename(newest)
    copy_newest(directory, store, keep=2)

    assert [copy.manifest.step for copy in copied(store)] == [5, 3]
    assert len(store.names()) == 2


def test_copies_never_make_checkpoints_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the place for them is a directory that was saved to, also one without its owner."""
    for name in ("one", "other"):
        saved(tmp_path / name)
    before = sorted(tmp_path.glob("*/step-*"))

    for place in ("one", "other"):
        assert main(["checkpoint", "copy", str(tmp_path / "one"), f"file://{tmp_path / place}"])
        assert "is a directory of checkpoints itself" in capsys.readouterr().err
    (tmp_path / "other" / "owner.json").unlink()
    url = f"file://{tmp_path / 'other'}"
    assert not main(["checkpoint", "copy", str(tmp_path / "one"), url, "--keep", "1"])

    assert set(before) <= set(tmp_path.glob("*/step-*"))


def test_a_copy_of_an_earlier_step_stays_beside_those_of_later_ones(
    store: Store, directory: Path
) -> None:
    """The training went back; what it saves from there on is copied."""
    later = [directory / directory_name(step) for step in (3, 5)]
    copy_newest(directory, store, keep=1)
    for checkpoint in later:
        shutil.rmtree(checkpoint)

    name = copy_newest(directory, store, keep=1)

    assert [copy.manifest.step for copy in copied(store)] == [5, 1]
    assert name == copied(store)[1].name


def test_a_damaged_checkpoint_is_not_copied(
    store: Store, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The one before is; the digest is taken of the bytes that are sent."""
    damage(directory / directory_name(5) / "rank-00000.tensors")

    name = copy_newest(directory, store, keep=2)

    assert name.startswith(directory_name(3))
    assert "not copied" in caplog.text
    assert [copy.manifest.step for copy in copied(store)] == [3]
    assert len(store.names()) == 1, "what had been sent of the damaged one is gone"


@pytest.mark.parametrize("what", ["rank-00000.tensors", "manifest.json"])
def test_a_copy_that_is_damaged_there_is_never_restored(
    store: Store, directory: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The one before is brought back."""
    newest = directory / directory_name(5)
    hidden = newest.rename(directory / "hidden")
    copy_newest(directory, store, keep=2)
    hidden.rename(newest)
    name = copy_newest(directory, store, keep=2)
    data = bytearray(b"".join(store.blocks(f"{name}/{what}")))
    data[100] ^= 1
    store.write(f"{name}/{what}", iter([bytes(data)]))
    shutil.rmtree(directory)
    directory.mkdir()

    path = fetch_newest(store, directory)

    assert path
    assert path.name == directory_name(3)
    assert name in caplog.text
    assert restored(directory) == (4, 3)


class Meanwhile(Store):
    """A store that is so slow that something happens before the first byte is sent."""

    def __init__(self, url: str, happens: Callable[[], None]) -> None:
        super().__init__(url)
        self._happens: Callable[[], None] | None = happens
        self._turn = threading.Lock()

    def write(self, name: str, blocks: Iterable[bytes]) -> None:
        """After it has happened."""
        with self._turn:
            happens, self._happens = self._happens, None
            if happens:
                happens()
        super().write(name, blocks)


def test_what_is_deleted_while_it_is_copied_is_copied_whole(
    directory: Path, tmp_path: Path
) -> None:
    """Else a copier that is slower than the saves would never finish one."""

    def delete_all() -> None:
        for path in directory.glob("step-*"):
            shutil.rmtree(path)

    store = Meanwhile(f"file://{tmp_path}/copies", delete_all)

    name = copy_newest(directory, store, keep=2)

    assert name.startswith(directory_name(5))
    assert not list(directory.glob(".saving-*")), "nothing is left of it on the disk"
    assert fetch_newest(store, directory) == directory / directory_name(5)
    assert restored(directory) == (6, 5)


def test_where_none_is_sound_nothing_stays_in_the_store(
    store: Store, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither whole nor in parts."""
    for step in (1, 3, 5):
        damage(directory / directory_name(step) / "rank-00000.tensors")

    assert copy_newest(directory, store, keep=2) == ""

    assert store.names() == []
    assert caplog.text.count("not copied") == 3


def test_what_is_there_already_is_not_fetched_again(store: Store, directory: Path) -> None:
    """Nor put aside: it is sound, and the same. What is damaged is."""
    copy_newest(directory, store, keep=2)
    path = directory / directory_name(5)
    before = path.stat().st_ino

    assert fetch_newest(store, directory) == path
    assert path.stat().st_ino == before
    assert not (directory / "quarantine").exists()
    damage(path / "rank-00000.tensors")
    assert fetch_newest(store, directory) == path

    assert path.stat().st_ino != before
    assert not list(problems(look(path)))


def test_fetch_says_what_is_there_and_removes_what_was_cut_off(
    directory: Path, tmp_path: Path
) -> None:
    """A fetch that was killed has left the room of a checkpoint taken."""
    url = f"file://{tmp_path}/copies"
    copy_newest(directory, Store(url), keep=2)
    left = directory / ".saving-copy-step-000000005-0a"
    left.mkdir()

    ended = subprocess.run(
        [sys.executable, "-m", "slurm_resilience", "checkpoint", "fetch", url, str(directory)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert ended.returncode == 0
    assert "is there already" in ended.stderr
    assert not left.exists()


def test_a_copy_without_its_manifest_is_none_and_goes_with_the_next(
    store: Store, directory: Path
) -> None:
    """What a copier that was killed has left."""
    store.write(f"{directory_name(9)}-00000000/rank-00000.tensors", iter([b"half"]))

    assert fetch_newest(store, directory) is None
    copy_newest(directory, store, keep=2)

    assert [copy.manifest.step for copy in copied(store)] == [5]
    assert len(store.names()) == 1


def test_a_manifest_of_another_version_is_left_alone(store: Store, directory: Path) -> None:
    """It is not restored, and it is not ours to delete."""
    store.write(f"{directory_name(9)}-00000000/{manifests.NAME}", iter([b'{"format": 9}']))

    copy_newest(directory, store, keep=1)

    assert len(store.names()) == 2


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "index.json/.."])
def test_a_copy_that_names_other_files_is_refused(
    store: Store, directory: Path, name: str, tmp_path: Path
) -> None:
    """Nothing is written outside the directory."""
    entry = found(directory)[0]
    assert entry.manifest
    evil = {**entry.manifest.files, name: manifests.File(size_bytes=4, crc32=0)}
    text = manifests.encoded(msgspec.structs.replace(entry.manifest, files=evil))
    store.write(f"{directory_name(5)}-00000000/{manifests.NAME}", iter([text]))

    with pytest.raises(CheckpointCopyError, match="no file of a checkpoint"):
        fetch_newest(store, directory)

    assert not (tmp_path / "evil").exists()


def test_a_copy_whose_manifest_has_absurd_sizes_is_none(store: Store, directory: Path) -> None:
    """Nothing is allocated or fetched for it."""
    entry = found(directory)[0]
    assert entry.manifest
    name = copy_newest(directory, store, keep=1)
    huge = {file: manifests.File(size_bytes=1 << 60, crc32=1) for file in entry.manifest.files}
    text = manifests.encoded(msgspec.structs.replace(entry.manifest, files=huge))
    store.write(f"{name}/{manifests.NAME}", iter([text]))

    with pytest.raises(CheckpointCopyError, match="missing or cut"):
        fetch_newest(store, directory)

    assert not list(directory.glob(".saving-*"))


@pytest.mark.parametrize(
    ("url", "says"),
    [("nonsense://x", "nonsense"), ("s4://bucket/x", "s4")],
)
def test_a_place_that_nobody_knows_is_refused(url: str, says: str) -> None:
    """The line says what to install."""
    with pytest.raises(UsageError, match=says) as refused:
        Store(url)

    assert "pip install" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_server_that_is_not_there_is_one_line(s3: S3, directory: Path) -> None:
    """Exit status 2; the checkpoints on disk are as they were."""
    elsewhere = {**os.environ, **s3.environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "slurm_resilience", "checkpoint", "copy", str(directory)]

    ended = subprocess.run(
        [*command, "s3://bucket/none-there"],
        env=elsewhere, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert "s3://bucket/none-there" in ended.stderr
    assert len(found(directory)) == 3


def test_the_commands_copy_and_fetch(
    s3: S3,
    directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From one cluster to another."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    url = f"s3://bucket/commands-{tmp_path.name}"
    (tmp_path / "other").mkdir()

    assert main(["checkpoint", "copy", str(directory), url, "--json"]) == 0
    copy = json.loads(capsys.readouterr().out)["copy"]
    assert main(["checkpoint", "fetch", url, str(tmp_path / "other")]) == 0

    assert copy.startswith(f"{url}/{directory_name(5)}-")
    assert restored(tmp_path / "other") == (6, 5)


def test_kills_in_mid_copy_leave_only_whole_copies(
    s3: S3, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any instant what is there comes back right, or is no copy at all."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    store = Store(f"s3://bucket/kills-{tmp_path.name}")
    chance = random.Random(5)
    command = [sys.executable, "-m", "slurm_resilience", "checkpoint", "copy", str(directory)]
    kinds = set()
    for _ in range(6):
        with subprocess.Popen([*command, store.url]) as process:
            wait_for(lambda: store.names() or process.poll() is not None)
            try:
                process.wait(chance.uniform(0.0, 0.03))  # the moment of the kill, not a wait
            except subprocess.TimeoutExpired:
                process.kill()
        whole = copied(store)
        kinds.add(bool(whole))
        for copy in whole:
            there = tmp_path / f"back-{len(list(tmp_path.iterdir()))}"
            there.mkdir()
            assert fetch_newest(store, there) == there / directory_name(5)
            assert restored(there) == (6, 5)
            store.delete(copy.name, folder=True)
    assert kinds, "nothing was ever there"
