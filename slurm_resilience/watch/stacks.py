"""
Python stacks of ranks, as `faulthandler` writes them: which one is not where the others are.

In a job that stands still most ranks wait for the one that does not come. It is found as the
rank outside the collective while others are inside, else as the few that stand elsewhere.
"""

import re
from collections import Counter
from collections.abc import Mapping

from slurm_resilience.diagnosis.traceback import LIBRARIES

FRAME = re.compile(
    r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE
)
THREAD = re.compile(r"^(?:Current thread|Thread) .*$", re.MULTILINE)
WAITING = (
    "torch/distributed/",
    "torch/autograd/graph.py",
    "torch/cuda/streams.py",
    "torch/cuda/__init__.py",
    "slurm_resilience/training/agreement.py",
)
"""Where a rank waits for its peers, seen from Python."""

Frame = tuple[str, str, str]
"""File, line, function."""


def odd_ones(stacks: Mapping[int, str]) -> dict[int, str]:
    """
    Ranks that stand elsewhere than the rest, with the line they stand at.

    Empty where nobody differs, or where there is no majority to differ from.
    """
    places = {rank: main_thread(text) for rank, text in stacks.items()}
    places = {rank: frames for rank, frames in places.items() if frames}
    outside = [rank for rank, frames in places.items() if not is_waiting(frames)]
    if 0 < len(outside) < len(places) and (len(outside) == 1 or len(outside) * 2 < len(places)):
        return {rank: place(places[rank]) for rank in outside}
    spots = Counter(own_frame(frames) for frames in places.values())
    spot, count = spots.most_common(1)[0] if spots else (None, 0)
    if count * 2 <= len(places):
        return {}
    return {rank: place(frames) for rank, frames in places.items() if own_frame(frames) != spot}


def main_thread(text: str) -> list[Frame]:
    """Frames of the thread that runs the script, innermost first; empty where there is none."""
    threads = [_frames(part) for part in THREAD.split(text)]
    threads = [frames for frames in threads if frames]
    scripts = [frames for frames in threads if frames[-1][2] == "<module>"]
    return (scripts or threads or [[]])[-1]


def is_waiting(frames: list[Frame]) -> bool:
    """Whether these frames wait for other ranks."""
    return any(part in file for file, _, _ in frames[:8] for part in WAITING)


def own_frame(frames: list[Frame]) -> Frame:
    """The innermost frame of the user's own code, else the innermost."""
    own = (frame for frame in frames if not any(part in frame[0] for part in LIBRARIES))
    return next(own, frames[0])


def place(frames: list[Frame]) -> str:
    """Where these frames stand, in a few words."""
    file, line, function = own_frame(frames)
    return f"{file}:{line} in {function}"


def _frames(text: str) -> list[Frame]:
    return [(m["file"], m["line"], m["function"]) for m in FRAME.finditer(text)]
