"""Files written and digested in blocks, by several threads."""

import mmap
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint_files.blocks import ALIGNMENT, BLOCK_BYTES, in_threads, write
from slurm_resilience.checkpoint_files.crc import joined
from slurm_resilience.checkpoint_files.digest import digest
from slurm_resilience.checkpoint_files.manifest import File

SIZES = [
    0, 1, ALIGNMENT - 1, ALIGNMENT, ALIGNMENT + 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1,
    2 * BLOCK_BYTES + ALIGNMENT + 64, 5 * BLOCK_BYTES + 7,
]  # fmt: skip


@given(parts=st.lists(st.binary(max_size=300), max_size=5))
def test_the_crc_of_parts_is_that_of_the_whole(parts: list[bytes]) -> None:
    """However a file is cut."""
    crc = 0
    for part in parts:
        crc = joined(crc, zlib.crc32(part), len(part))

    assert crc == zlib.crc32(b"".join(parts))


@pytest.mark.parametrize("size_bytes", SIZES)
@pytest.mark.parametrize("aligned", [True, False], ids=["pages", "odd memory"])
def test_what_is_written_is_what_reads_back(
    tmp_path: Path, size_bytes: int, *, aligned: bool
) -> None:
    """Size, content and digest, past the cache and through it."""
    room = mmap.mmap(-1, size_bytes + ALIGNMENT)
    data = memoryview(room)[0 if aligned else 3 :][:size_bytes]
    data[:] = (os.urandom(1 << 16) * (size_bytes // (1 << 16) + 1))[:size_bytes]
    path = tmp_path / "file"

    written = write(path, data)

    assert written == File(size_bytes=size_bytes, crc32=zlib.crc32(data))
    assert path.read_bytes() == bytes(data)
    assert digest(path) == digest(path, from_disk=True) == written


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    """Nor is a link followed."""
    (tmp_path / "there").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "there")

    for name in ("there", "link"):
        with pytest.raises(FileExistsError):
            write(tmp_path / name, memoryview(b"new"))

    assert (tmp_path / "there").read_bytes() == b"old"


def test_the_first_error_of_a_thread_is_raised_and_nothing_more_begins() -> None:
    """A full disk is told once, not for each block."""
    begun = []

    def fail(task: int) -> None:
        begun.append(task)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        in_threads(fail, range(1000))

    assert len(begun) < 1000


def test_a_last_save_is_written_while_the_interpreter_ends(tmp_path: Path) -> None:
    """Python begins no executor's task then, and from 3.12 on no thread either."""
    script = (
        "import atexit, sys\n"
        "from pathlib import Path\n"
        "from slurm_resilience.checkpoint_files.blocks import BLOCK_BYTES, write\n"
        "data = memoryview(bytearray(3 * BLOCK_BYTES))\n"
        "atexit.register(lambda: print(write(Path(sys.argv[1]), data).size_bytes))\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "file")],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip

    assert (ended.stdout, ended.stderr) == (f"{3 * BLOCK_BYTES}\n", "")
