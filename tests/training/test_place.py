"""Where checkpoints lie: a bad place is said in one line, and nothing is refused for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files import place
from slurm_resilience.checkpoint_files.place import Place
from slurm_resilience.errors import UsageError
from slurm_resilience.training import Checkpoints, Run

GIB = 1 << 30
DIRECTORY = Path("/fast/ckpt")

ON_MOUNT = """
import sys
from pathlib import Path
import torch
from slurm_resilience.training import Checkpoints, Run
mount = Path(sys.argv[1])
(mount / "data").mkdir()
run = Run(
    checkpoints=Checkpoints(
        mount / "c", every_steps=1, keep=int(sys.argv[2]), training_data=mount / "data"
    ),
    state={"x": torch.zeros(1 << 18)},
)
for step in range(run.restore(), 2):
    run.step(step)
run.finish()
"""


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (Place(DIRECTORY, "xfs", GIB, GIB), []),
        (Place(DIRECTORY, "", GIB, GIB), []),
        (Place(DIRECTORY, "lustre", GIB, GIB), []),
        (Place(DIRECTORY, "tmpfs", GIB, GIB), ["is on tmpfs"]),
        (Place(DIRECTORY, "overlay", GIB, GIB), ["is on overlay"]),
        (Place(DIRECTORY, "xfs", GIB, GIB, Path("/fast/data")), ["/fast/data"]),
        (Place(DIRECTORY, "xfs", GIB, GIB, None, "/d: gone"), ["training_data=/d: gone"]),
        (
            Place(DIRECTORY, "ramfs", GIB, GIB, Path("/fast/data")),
            ["ramfs", "same file system"],
        ),
    ],
)
def test_what_speaks_against_a_place(where: Place, says: list[str]) -> None:
    """One line each, with the directory in it."""
    concerns = place.concerns(where)

    assert len(concerns) == len(says)
    for concern, part in zip(concerns, says, strict=True):
        assert part in concern
        assert str(DIRECTORY) in concern
        assert "\n" not in concern


@pytest.mark.parametrize(
    ("free_gib", "held_gib", "keep", "is_enough"),
    [(10, 0, 3, True), (4, 0, 3, True), (3.9, 0, 3, False), (1, 3, 3, True), (1, 2, 3, False)],
)
def test_there_has_to_be_room_for_those_kept_and_the_one_being_written(
    free_gib: float, held_gib: float, keep: int, *, is_enough: bool
) -> None:
    """What is taken by checkpoints already counts as theirs."""
    lack = place.lack_of_room(
        Place(DIRECTORY, "xfs", 100 * GIB, int(free_gib * GIB)),
        keep=keep,
        size_bytes=GIB,
        held_bytes=int(held_gib * GIB),
    )

    assert (not lack) == is_enough
    assert is_enough or "keep=3 and the one being written need 4.00 GiB" in lack


def test_small_sizes_are_no_zeros() -> None:
    """As those of a first try with a small model."""
    lack = place.lack_of_room(
        Place(DIRECTORY, "xfs", 4 << 20, 3 << 20), keep=3, size_bytes=1_300_000, held_bytes=0
    )

    assert "has room for 3.0 MiB" in lack
    assert "need 5.0 MiB" in lack


@pytest.mark.parametrize(("free_gib", "is_enough"), [(5, True), (4, False)])
def test_there_has_to_be_room_for_one_more_that_is_copied(
    free_gib: int, *, is_enough: bool
) -> None:
    """It may be deleted before it is sent, and its room comes free after that."""
    lack = place.lack_of_room(
        Place(DIRECTORY, "xfs", 100 * GIB, free_gib * GIB),
        keep=3,
        size_bytes=GIB,
        held_bytes=0,
        copies=True,
    )

    assert (not lack) == is_enough
    assert is_enough or (
        "keep=3, the one being copied and the one being written need 5.00 GiB" in lack
    )


@pytest.mark.parametrize(
    ("took_s", "interval_s", "is_slow"),
    [
        (1.0, 10.0, False), (10.0, 10.0, False), (11, 10.0, True),
        (0.03, 0.001, False), (1.0, 0.001, False), (1.1, 0.001, True),
    ],
)  # fmt: skip
def test_a_save_that_takes_longer_than_the_time_to_the_next_is_said(
    took_s: float, interval_s: float, *, is_slow: bool
) -> None:
    """Training would stand still for the difference, each time; of a short save nothing is said."""
    text = place.slowness(DIRECTORY, took_s=took_s, interval_s=interval_s)

    assert bool(text) == is_slow


def test_this_machine_can_be_looked_at(tmp_path: Path) -> None:
    """Its root has a kind of file system and a size, and shares with itself."""
    looked = place.look(tmp_path, tmp_path)

    assert looked.total_bytes >= looked.free_bytes > 0
    assert looked.shares_with == tmp_path
    assert place.look(Path("/proc")).kind == "proc"


def test_training_data_that_is_not_there_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In one line that names it, as of each bad place; the training goes on."""
    checkpoints = Checkpoints(tmp_path / "c", training_data=tmp_path / "none")

    with Run(checkpoints=checkpoints, state={"n": 1}) as run:
        assert run.restore() == 0

    assert caplog.text.count(f"training_data={tmp_path}/none: No such file or directory") == 1


@pytest.mark.parametrize("field", ["copy_every_minutes", "keep_copies"])
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_a_number_that_makes_no_sense_is_refused(field: str, value: float) -> None:
    """As with the others."""
    with pytest.raises(UsageError, match=field):
        Checkpoints("/c", **{field: value})  # type: ignore[arg-type]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize(("keep", "says_small"), [(1, False), (5, True)])
def test_a_run_says_it_once(tmp_path: Path, keep: int, *, says_small: bool) -> None:
    """In memory, with the data, and for five of a megabyte on four: the run goes on."""
    mount = tmp_path / "mount"
    mount.mkdir()
    shell = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'

    ended = subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", shell, str(mount),
         sys.executable, "-c", ON_MOUNT, str(mount), str(keep)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    assert ended.stderr.count("is on tmpfs") == 1
    assert ended.stderr.count("same file system as the training data") == 1
    assert ended.stderr.count("saves will fail") == int(says_small)
