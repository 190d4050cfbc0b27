"""An index whose digest is right and whose content is nonsense is unsound, and found so soon."""

import random
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import msgspec
import pytest

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.boxes import overlap
from slurm_resilience.checkpoint_files.index import Index, Piece, Tensor, parsed
from slurm_resilience.checkpoint_files.manifest import File
from slurm_resilience.cli import main
from slurm_resilience.errors import CheckpointLoadError
from tests.whole import TENSORS, VALUES, checkpoint, swap

FILES = {TENSORS: File(size_bytes=1 << 20, crc32=0), VALUES: File(size_bytes=99, crc32=0)}
Refuse = Callable[..., None]


def piece(
    offsets: tuple[int, ...], sizes: tuple[int, ...], at: int = 0, file: str = TENSORS
) -> Piece:
    """A box of a tensor, and its place."""
    return Piece(offsets, sizes, file, at)


def tensor(
    *pieces: Piece, sizes: tuple[int, ...] = (4, 4), dtype: str = "uint8"
) -> dict[str, Tensor]:
    """One tensor of these *pieces*."""
    return {"x": Tensor(dtype, sizes, pieces)}


WHOLE = piece((0, 0), (4, 4))
NONSENSE = {
    "overlapping and a hole": (
        tensor(piece((0, 0), (2, 4)), piece((0, 2), (4, 2), 8)), "overlap"
    ),
    "the same twice": (tensor(piece((0, 0), (2, 4)), piece((0, 0), (2, 4), 8)), "overlap"),
    "a hole": (tensor(piece((0, 0), (3, 4))), "a hole"),
    "no piece": (tensor(), "a hole"),
    "too much": (tensor(WHOLE, piece((0, 0), (1, 1), 16)), "overlap"),
    "outside its tensor": (tensor(piece((1, 0), (4, 4))), "outside"),
    "of other dimensions": (tensor(piece((0,), (16,))), "outside"),
    "beyond its file": (tensor(piece((0, 0), (4, 4), (1 << 20) - 15)), "beyond the end"),
    "in a file that is not there": (
        tensor(piece((0, 0), (4, 4), 0, "rank-00001.tensors")), "no file of tensors"
    ),
    "in a file elsewhere": (tensor(piece((0, 0), (4, 4), 0, "/x.tensors")), "no file of tensors"),
    "in the values": (tensor(piece((0, 0), (4, 4), 0, VALUES)), "no file of tensors"),
    "in the bytes of another": (
        {**tensor(WHOLE), "y": Tensor("uint8", (4, 4), (piece((0, 0), (4, 4), 15),))},
        "bytes of rank-00000.tensors in common",
    ),
    "an unknown dtype": (tensor(WHOLE, dtype="load"), "unknown dtype 'load'"),
    "many dimensions": (tensor(piece((0,) * 65, (1,) * 65), sizes=(1,) * 65), "no tensor can have"),
    "an absurd side": (tensor(sizes=(1 << 63, 0)), "no tensor can have"),
    "an absurd size": (tensor(sizes=(1 << 40, 1 << 40)), "no tensor can have"),
}  # fmt: skip


@pytest.mark.parametrize(("tensors", "why"), NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_refused_by_verify(
    tmp_path: Path,
    tensors: dict[str, Tensor],
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Though each digest is right; `path` gives the one before."""
    before, path = checkpoint(tmp_path, 1), checkpoint(tmp_path, 2, content=bytes(1 << 20))
    swap(path / manifests.INDEX, msgspec.json.encode(Index(tensors)))
    swap(path / TENSORS, bytes(1 << 20))

    status = main(["checkpoint", "verify", str(tmp_path)])
    out = capsys.readouterr().out
    main(["checkpoint", "path", str(tmp_path)])

    assert status == 1
    assert "index.json: " in out
    assert why in out
    assert len(out.splitlines()) == 3
    assert capsys.readouterr().out == f"{before}\n"


VALUES_OF_NO_RANK = {
    "nothing": b"",
    "a pickle": b"\x80\x04.",
    "another key": msgspec.msgpack.encode({"parts": {}, "rng": b"\xc0", "more": 1}),
    "no msgpack inside": msgspec.msgpack.encode({"parts": {"x": b"\x92"}, "rng": b"\xc0"}),
    "no known kind inside": msgspec.msgpack.encode(
        {"parts": {"x": msgspec.msgpack.encode(["list", ["object", 1]])}, "rng": b"\xc0"}
    ),
    "endless depth": msgspec.msgpack.encode(
        {"parts": {"x": b"\x92\xa4list" * 9000 + b"\xc0"}, "rng": b"\xc0"}
    ),
}


@pytest.mark.parametrize("data", VALUES_OF_NO_RANK.values(), ids=VALUES_OF_NO_RANK)
def test_values_of_no_rank_are_refused_by_verify(
    tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one line that names the file."""
    swap(checkpoint(tmp_path, 2) / VALUES, data)

    assert main(["checkpoint", "verify", str(tmp_path)]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert f"{VALUES}: no values of a rank" in lines[1]


@pytest.mark.parametrize("what", ["list", "prune --keep 1 --dry-run"])
def test_sizes_alone_say_nothing_of_the_index(tmp_path: Path, what: str) -> None:
    """`list` reads no content; `prune` does, and counts it not."""
    checkpoint(tmp_path, 1)
    swap(checkpoint(tmp_path, 2) / manifests.INDEX, b"{}")

    assert main(["checkpoint", *what.split(), str(tmp_path)]) == 0


@pytest.mark.parametrize("seed", range(20))
def test_boxes_overlap_where_two_hold_the_same_element(seed: int) -> None:
    """As counted element by element, for boxes in any disorder."""
    chance, boxes = random.Random(seed), []
    for _ in range(chance.randint(2, 6)):
        offsets = tuple(chance.randrange(4) for _ in range(3))
        boxes.append(piece(offsets, tuple(chance.randint(1, 5 - at) for at in offsets)))
    elements = [
        element
        for one in boxes
        for element in product(
            *(range(at, at + size) for at, size in zip(one.offsets, one.sizes, strict=True))
        )
    ]

    assert overlap(boxes) == (len(elements) > len(set(elements)))


def test_boxes_that_no_cut_parts_need_not_overlap() -> None:
    """Four around a fifth, like the sails of a windmill."""
    sails = [
        piece((0, 0), (1, 2)), piece((0, 2), (2, 1)), piece((2, 1), (1, 2)), piece((1, 0), (2, 1))
    ]  # fmt: skip

    assert not overlap([*sails, piece((1, 1), (1, 1))])
    assert overlap([*sails, piece((1, 0), (1, 2))])


def shards(rows: int, columns: int) -> tuple[tuple[Piece, ...], File]:
    """One element each, in no order; and their file."""
    places = list(product(range(rows), range(columns)))
    random.Random(0).shuffle(places)
    pieces = tuple(piece(place, (1, 1), at) for at, place in enumerate(places))
    return pieces, File(size_bytes=len(places), crc32=0)


@pytest.mark.parametrize("columns", [1, 200], ids=["in one direction", "in two"])
def test_many_pieces_take_no_more_than_their_number(columns: int) -> None:
    """Ten times as many take about ten times as long; each with each would take a hundred."""
    took_s = []
    for rows in (4_000 // columns, 40_000 // columns):
        pieces, file = shards(rows, columns)
        data = msgspec.json.encode(Index(tensor(*pieces, sizes=(rows, columns))))
        since = time.process_time()
        parsed(data, {TENSORS: file})
        took_s.append(time.process_time() - since)

    assert took_s[1] < 40 * took_s[0]


def test_disorder_is_refused_before_it_takes_long() -> None:
    """A staircase, of which each cut parts a single step; no plan of torch looks like that."""
    count = 5_000
    steps = [
        piece((at, at), (1, count - at) if at % 2 else (count - at, 1)) for at in range(count)
    ]
    since = time.process_time()

    assert overlap(steps)

    assert time.process_time() - since < 10


def test_a_part_may_lack_some_but_not_hold_some_twice() -> None:
    """What is not here lies on other nodes."""
    some = msgspec.json.encode(Index(tensor(piece((0, 0), (1, 4)), piece((2, 0), (1, 4), 4))))
    twice = msgspec.json.encode(Index(tensor(piece((0, 0), (1, 4)), piece((0, 0), (1, 4), 4))))

    assert parsed(some, FILES, partial=True).tensors
    with pytest.raises(CheckpointLoadError, match="overlap"):
        parsed(twice, FILES, partial=True)
