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


@pytest.mark.parametrize("planted", ["left over", "second name", "link"])
def test_what_stands_under_the_name_of_the_fresh_file_is_not_written_to(
    tmp_path: Path, planted: str
) -> None:
    """A file of somebody else that was given this name as well keeps its content."""
    other, path = tmp_path / "other", tmp_path / "a"
    other.write_bytes(b"theirs")
    fresh = tmp_path / f".a.{os.getpid()}.new"
    if planted == "left over":
        fresh.write_bytes(b"half")
    elif planted == "second name":
        fresh.hardlink_to(other)
    else:
        fresh.symlink_to(other)

    replace(path, b"ours")

    assert (other.read_bytes(), path.read_bytes()) == (b"theirs", b"ours")
    assert sorted(tmp_path.iterdir()) == [path, other]


def test_nothing_is_left_where_the_place_is_taken(tmp_path: Path) -> None:
    """A folder stands there: the error goes to who asked."""
    (tmp_path / "a" / "b").mkdir(parents=True)

    with pytest.raises(IsADirectoryError):
        replace(tmp_path / "a", b"1")

    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
