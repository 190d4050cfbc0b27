"""
What a checkpoint costs: `python -m benchmarks.checkpoint [--short] [--directory DIR] [--gb 0.4]`.

One run measures ours and, beside it, torch.save, dcp.save and dcp.async_save on the same disk. Each
ratio is against a plain operation that takes turns with it: a copy into memory that is there (`stall_vs_copy`),
a write and fsync of the same bytes (`persist_vs_raw`, a ratio of speeds: more is better),
torch.load with load_state_dict (`load_vs_torch_load`). One JSON line a figure.

A peer's `persist` ends when its files are fsynced too, by us where it does not do so itself. Ours ends
when the checkpoint has its name; `persist_and_read_back` when it has been read back from the disk and
the one before is deleted. NVRx's checkpointing needs a GPU and is not measured here.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from benchmarks import checkpoint_ours as ours
from benchmarks import checkpoint_peers as peers
from benchmarks.checkpoint_processes import alone, together
from benchmarks.checkpoint_state import forget

GB = 1 << 30
WRITERS = (2, 4)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer rounds, a smaller state")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"), help="to write in")
    parser.add_argument("--gb", type=float, default=0.4, help="size of the state")
    parser.add_argument("--part", choices=PARTS, help="only these figures")
    arguments = parser.parse_args()
    size_bytes = int((0.1 if arguments.short else arguments.gb) * GB)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        place = Place(Path(folder), size_bytes, is_short=arguments.short)
        for name, measure in PARTS.items():
            if arguments.part in {None, name}:
                measure(place)


class Place:
    """Where to measure, and how much."""

    def __init__(self, folder: Path, size_bytes: int, *, is_short: bool) -> None:
        self.size_bytes = size_bytes
        self.count = 3 if is_short else 7
        self.saves = 20 if is_short else 100
        self._folder = folder

    @contextmanager
    def empty(self) -> Iterator[Path]:
        """A directory for one measurement."""
        path = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            yield path
        finally:
            shutil.rmtree(path)


def _saving(place: Place) -> None:
    with place.empty() as directory:
        mine = alone(ours.saves, directory, place.size_bytes, place.count)
    _print("stall_vs_copy", mine.stall_s / mine.copy_s, "ratio")
    _print("first_stall_vs_copy", mine.first_stall_s / mine.copy_s, "ratio")
    _print("persist_vs_raw", mine.raw_s / mine.persist_s, "ratio")
    _print("persist_and_read_back_vs_raw", mine.raw_s / mine.proved_s, "ratio")
    _print("persist_gb_per_s", place.size_bytes / mine.persist_s / 1e9, "GB/s")
    for peer in peers.PEERS:
        with place.empty() as directory:
            stall_s, copy_s, persist_s, raw_s = alone(
                peers.saves, peer, directory, place.size_bytes, place.count
            )
        _print(f"{peer}.stall_vs_copy", stall_s / copy_s, "ratio")
        _print(f"{peer}.persist_vs_raw", raw_s / persist_s, "ratio")


def _writers(place: Place) -> None:
    for ranks in WRITERS:
        each = place.size_bytes // ranks
        with place.empty() as directory:
            mine = together(ours.saves, directory, each, place.count, ranks=ranks)
        worst_s = max(one.persist_s for one in mine)
        raw_s = max(one.raw_s for one in mine)
        _print(f"writers_{ranks}.persist_vs_raw", raw_s / worst_s, "ratio")
        stall = max(one.stall_s / one.copy_s for one in mine)
        _print(f"writers_{ranks}.stall_vs_copy", stall, "ratio")


def _loading(place: Place) -> None:
    rounds = range(place.count)
    with place.empty() as directory:
        alone(ours.saved, directory / "ours", place.size_bytes)
        alone(peers.saved, directory, place.size_bytes)
        took: dict[str, list[float]] = {}
        for name in [name for _ in rounds for name in ("cold", "warm")]:
            for who, measure, where in (
                ("torch", peers.torch_load_s, directory),
                ("dcp", peers.dcp_load_s, directory),
                ("ours", ours.restored_s, directory / "ours"),
            ):
                if name == "cold":
                    forget(directory)
                took_s = alone(measure, where, place.size_bytes)
                took.setdefault(f"{name} {who}", []).append(took_s)
    median = {name: statistics.median(values) for name, values in took.items()}
    _print("load_vs_torch_load", median["cold ours"] / median["cold torch"], "ratio")
    _print("warm.load_vs_torch_load", median["warm ours"] / median["warm torch"], "ratio")
    _print("dcp.load_vs_torch_load", median["cold dcp"] / median["cold torch"], "ratio")
    _print("dcp.warm.load_vs_torch_load", median["warm dcp"] / median["warm torch"], "ratio")


def _memory(place: Place) -> None:
    small = place.size_bytes // 8
    with place.empty() as directory:
        _print("rss_growth_mb", alone(ours.growth_mb, directory, small, place.saves), "MB")
    with place.empty() as directory:
        copies = alone(ours.extra_copies, directory, place.size_bytes)
        _print("extra_copies", copies, "states")
    for peer in peers.PEERS:
        with place.empty() as directory:
            grown_mb = alone(peers.growth_mb, peer, directory, small, place.saves)
            _print(f"{peer}.rss_growth_mb", grown_mb, "MB")


def _step(place: Place) -> None:
    with place.empty() as directory:
        _print("step_us", alone(ours.step_us, directory, 20_000), "us")


PARTS = {
    "saving": _saving,
    "writers": _writers,
    "loading": _loading,
    "memory": _memory,
    "step": _step,
}


def _print(figure: str, value: float, unit: str) -> None:
    line = {
        "bench": "checkpoint",
        "figure": figure,
        "value": round(value, 3),
        "unit": unit,
        "device": "cuda" if torch.cuda.is_available() else "cpu",
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
