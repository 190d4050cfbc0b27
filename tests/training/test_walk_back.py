"""Damaged, cut, hostile checkpoints: never loaded, never deleted, said."""

import json
import os
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.checkpoint_files.quarantine import MOST, put_aside, set_aside
from slurm_resilience.cli import main
from slurm_resilience.errors import CheckpointError, CheckpointLoadError, UsageError
from slurm_resilience.training import Checkpoints, Run, load
from tests.training.jobs import Level
from tests.training.ranks import wait_for
from tests.training.three_saves import restored, saved
from tests.whole import checkpoint, swap

Harm = Callable[[Path], None]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Checkpoints of the steps 1, 3 and 5."""
    return saved(tmp_path / "c")


def flip(path: Path, at: int) -> None:
    """Change one bit."""
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def empty(checkpoint: Path) -> None:
    """Delete all its files."""
    for path in checkpoint.iterdir():
        path.unlink()


def pipe_instead(path: Path) -> None:
    """Put a pipe in a file's place, on which a careless reader waits for ever."""
    path.unlink()
    os.mkfifo(path)


def link_instead(path: Path) -> None:
    """Move a file elsewhere and link to it."""
    elsewhere = path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(elsewhere)


HARMS: dict[str, Harm] = {
    "tensors cut": lambda c: os.truncate(c / "rank-00000.tensors", 100),
    "tensors longer": lambda c: os.truncate(c / "rank-00000.tensors", 1 << 40),
    "one bit of a tensor": lambda c: flip(c / "rank-00000.tensors", 123_456),
    "one bit of the values": lambda c: flip(c / "rank-00000.values", -7),
    "one bit of the index": lambda c: flip(c / "index.json", 20),
    "one bit of the manifest": lambda c: flip(c / "manifest.json", 60),
    "tensors gone": lambda c: (c / "rank-00000.tensors").unlink(),
    "manifest gone": lambda c: (c / "manifest.json").unlink(),
    "manifest empty": lambda c: os.truncate(c / "manifest.json", 0),
    "manifest a pipe": lambda c: pipe_instead(c / "manifest.json"),
    "values a link": lambda c: link_instead(c / "rank-00000.values"),
    "everything gone": empty,
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_restore_walks_back_over_a_damaged_checkpoint(
    directory: Path, harm: Harm, caplog: pytest.LogCaptureFixture
) -> None:
    """The one before is used, the damaged one is put aside, and the log names it."""
    newest = directory / directory_name(5)
    harm(newest)

    start, level = restored(directory)

    assert (start, level) == (4, 3)
    assert f"skipped {newest}: " in caplog.text
    assert [path.name for path, _ in put_aside(directory)] == [f"{newest.name}-1"]
    assert not newest.exists()


@pytest.mark.parametrize("claims", [1, 999])
def test_a_checkpoint_whose_name_is_not_its_step_is_unsound(
    directory: Path, claims: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody moved it: which of the two is right, nobody can tell."""
    newest = directory / directory_name(5)
    manifest = msgspec.structs.replace(manifests.read(newest), step=claims)
    (newest / manifests.NAME).write_bytes(manifests.encoded(manifest))

    assert restored(directory) == (4, 3)
    assert f"is of step {claims}, which its name is not" in caplog.text


def newer(checkpoint: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Sign a manifest as another version would write it."""
    manifest = json.loads((checkpoint / manifests.NAME).read_bytes())["manifest"]
    change(manifest)
    text = msgspec.json.encode(manifest)
    sealed = {"crc32": zlib.crc32(text), "manifest": msgspec.Raw(text)}
    (checkpoint / manifests.NAME).write_bytes(msgspec.json.encode(sealed))


@pytest.mark.parametrize(
    "change",
    [lambda manifest: manifest.update(format=2), lambda manifest: manifest.update(shards=3)],
    ids=["format", "key"],
)
@pytest.mark.parametrize("steps", [(5,), (1, 3, 5)], ids=["newest", "all"])
def test_what_a_newer_version_wrote_is_left_alone(
    directory: Path, steps: tuple[int, ...], change: Callable[[dict[str, Any]], object]
) -> None:
    """An older version, started by mistake, says so; it moves and deletes nothing."""
    for step in steps:
        newer(directory / directory_name(step), change)

    with pytest.raises(CheckpointLoadError, match="written by a newer slurm_resilience"):
        restored(directory)
    main(["checkpoint", "verify", "--quarantine", str(directory)])
    main(["checkpoint", "prune", "--keep=1", str(directory)])

    there = {path.name for path in directory.glob("step-*")}
    assert {directory_name(step) for step in steps} <= there
    assert put_aside(directory) == []


def test_what_is_asked_for_is_the_newest_or_a_sound_one(directory: Path) -> None:
    """A word that means neither is not taken for one of them."""
    run = Run(checkpoints=Checkpoints(directory), state={"model": Level()})

    with pytest.raises(UsageError, match="'best'"):
        run.restore(prefer="best")  # type: ignore[arg-type]

    run.close()


def test_nothing_sound_at_all_is_for_a_person_to_decide(directory: Path) -> None:
    """Weeks of training are not begun anew because a disk is ill."""
    for step in (1, 3, 5):
        flip(directory / directory_name(step) / "rank-00000.tensors", 0)

    with pytest.raises(CheckpointError, match=r"none of the 3 checkpoints .* move them away"):
        restored(directory)

    assert len(list(directory.glob("step-*"))) == 3


def test_a_step_done_again_puts_the_damaged_checkpoint_aside(directory: Path) -> None:
    """It is neither overwritten nor counted among those to keep."""
    flip(directory / directory_name(5) / "rank-00000.tensors", 0)
    model = Level()
    run = Run(checkpoints=Checkpoints(directory, every_steps=1, keep=1), state={"model": model})
    for step in range(run.restore(), 6):
        model.rise(step)
        run.step(step)
    run.finish()

    assert sorted(path.name for path in directory.glob("*step-*")) == ["step-000000005"]
    assert len(put_aside(directory)) == 1
    assert restored(directory) == (6, 5)


def fill_quarantine(directory: Path) -> None:
    """Twice as many damaged ones as stay."""
    for step in range(10, 10 + 2 * MOST):
        path = checkpoint(directory, step)
        flip(path / "rank-00000.tensors", 0)
        set_aside(path, "damaged")


def test_the_quarantine_is_thinned_out_by_restore_and_beside_the_training(
    directory: Path,
) -> None:
    """Whoever filled it; no rank waits for that."""
    fill_quarantine(directory)
    model = Level()
    run = Run(checkpoints=Checkpoints(directory, every_steps=1), state={"model": model})
    step = run.restore()
    assert len(put_aside(directory)) == MOST

    fill_quarantine(directory)
    run.step(step)

    wait_for(lambda: len(put_aside(directory)) == MOST)
    run.finish()


@pytest.mark.parametrize("name", ["none", "x" * 5000, "nul\0", "loop"])
def test_what_is_no_checkpoint_cannot_be_loaded(tmp_path: Path, name: str) -> None:
    """One error for all of them, whatever was typed."""
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(CheckpointLoadError):
        load(tmp_path / name, "model")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("c", r"it is a directory of checkpoints; name one, step-\d{9} for example"),
        (".", "there are some in .*/c"),
        ("c/step-000000009", "manifest.json is missing, so it is no whole checkpoint"),
        ("none", "there is no such directory"),
    ],
)
def test_what_is_no_checkpoint_is_called_what_it_is(
    tmp_path: Path, name: str, says: str
) -> None:
    """By who would load a part of it."""
    saved(tmp_path / "c")
    (tmp_path / "c" / "step-000000009").mkdir()

    with pytest.raises(CheckpointLoadError, match=says):
        load(tmp_path / name, "model")


class Bomb:
    """What pickle would run."""

    def __reduce__(self) -> tuple[object, ...]:
        return (os.abort, ())


def index_with(**changes: object) -> Harm:
    """Lie about the first tensor of the index."""

    def harm(checkpoint: Path) -> None:
        path = checkpoint / "index.json"
        index = json.loads(path.read_bytes())
        index["tensors"]["model/first"].update(changes)
        swap(path, json.dumps(index).encode())

    return harm


def piece(**changes: object) -> list[dict[str, object]]:
    """A piece of the first tensor, but for *changes*."""
    whole = {"offsets": [0], "sizes": [200_000], "file": "rank-00000.tensors", "at": 0}
    return [{**whole, **changes}]


HOSTILE: dict[str, Harm] = {
    "a pickle": lambda c: swap(c / "rank-00000.values", pickle.dumps(Bomb())),
    "a pickle inside": lambda c: swap(
        c / "rank-00000.values",
        msgspec.msgpack.encode({"parts": {"model": pickle.dumps(Bomb())}, "rng": b"\xc0"}),
    ),
    "endless depth": lambda c: swap(
        c / "rank-00000.values",
        msgspec.msgpack.encode({"parts": {"model": b"\x92\xa4list" * 9000 + b"\xc0"}, "rng": b"\xc0"}),
    ),
    "an absurd size": index_with(sizes=[1 << 50], pieces=piece(sizes=[1 << 50])),
    "an absurd whole": index_with(sizes=[1 << 50]),
    "beyond the file": index_with(pieces=piece(at=1 << 40)),
    "another file": index_with(pieces=piece(file="../../etc/passwd")),
    "an attribute": index_with(dtype="load"),
    "index no JSON": lambda c: swap(c / "index.json", b"\x80\x04."),
}  # fmt: skip


@pytest.mark.parametrize("harm", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_checkpoint_is_not_used(directory: Path, harm: Harm) -> None:
    """Nothing in it is run, believed or allocated, though every digest is right; it is put aside."""
    harm(directory / directory_name(5))

    with pytest.raises(CheckpointLoadError) as refused:
        load(directory / directory_name(5), "model")

    assert "\n" not in str(refused.value)
    assert restored(directory) == (4, 3)
    assert len(put_aside(directory)) == 1


def test_an_object_of_numpy_is_refused(directory: Path) -> None:
    """It would be a pickle; what verifies and cannot be read is for a person to look at."""
    array = msgspec.msgpack.encode(["array", "O", bytes(8), 1])
    values = msgspec.msgpack.encode({"parts": {"model": array}, "rng": b"\xc0"})
    swap(directory / directory_name(5) / "rank-00000.values", values)

    with pytest.raises(CheckpointError, match="numpy type") as refused:
        restored(directory)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/passwd", "index.json/..", "rank-0.tensors", ""]
)
def test_a_manifest_that_names_other_files_is_refused(directory: Path, name: str) -> None:
    """A path that leads elsewhere is no file of a checkpoint."""
    newest = directory / directory_name(5)
    manifest = manifests.read(newest)
    files = {**manifest.files, name: manifests.File(size_bytes=0, crc32=zlib.crc32(b""))}
    lying = manifests.encoded(msgspec.structs.replace(manifest, files=files))

    with pytest.raises(CheckpointError, match="no file of a checkpoint"):
        manifests.parsed(lying)
