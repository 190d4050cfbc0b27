"""Files that are replaced whole: the old content or the new one, and nobody else's file."""

import os
from pathlib import Path

import pytest

from slurm_resilience.files import replace


@pytest.fixture
def umask() -> int:
    """What a new file of this process may not have."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_new_content_stands_there_and_nothing_beside_it(tmp_path: Path, umask: int) -> None:
    """Twice, with the usual mode."""
    path = tmp_path / "a.json"
    for data in (b"1", b"2"):
        replace(path, data)

    assert path.read_bytes() == b"2"
    assert path.stat().st_mode & 0o777 == 0o644 & ~umask
    assert list(tmp_path.iterdir()) == [path]


def test_mode_and_owner_are_exact_where_an_owner_is_named(tmp_path: Path) -> None:
    """Whatever the umask is."""
    path = tmp_path / "a"

    replace(path, b"1", mode=0o666, owner=(os.geteuid(), os.getegid()))

    assert path.stat().st_mode & 0o777 == 0o666
    assert (path.stat().st_uid, path.stat().st_gid) == (os.geteuid(), os.getegid())


@pytest.mark.parametrize("planted", ["second name", "link"])
def test_what_is_written_for_another_goes_through_no_planted_file(
    tmp_path: Path, planted: str
) -> None:
    """A file that was given the fresh file's name as well keeps content and owner."""
    other, path = tmp_path / "other", tmp_path / "a"
    other.write_bytes(b"theirs")
    fresh = tmp_path / f".a.{os.getpid()}.new"
    if planted == "second name":
        fresh.hardlink_to(other)
    else:
        fresh.symlink_to(other)

    with pytest.raises(FileExistsError):
        replace(path, b"ours", owner=(os.geteuid(), os.getegid()))

    assert other.read_bytes() == b"theirs"
    assert not path.exists()


def test_nothing_is_left_where_the_place_is_taken(tmp_path: Path) -> None:
    """A folder stands there: the error goes to who asked."""
    (tmp_path / "a" / "b").mkdir(parents=True)

    with pytest.raises(IsADirectoryError):
        replace(tmp_path / "a", b"1")

    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
