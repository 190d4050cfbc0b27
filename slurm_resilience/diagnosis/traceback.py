"""Python tracebacks in the last lines of a rank: the exception, and where in the user's code."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from slurm_resilience.diagnosis.lines import unprefixed

START = "Traceback (most recent call last):"
FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
EXCEPTION = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen ", "<string>")


class Raised(NamedTuple):
    """One traceback."""

    name: str
    """Of the exception, without its modules."""
    line: str
    """The exception's own line."""
    frame: str | None
    """The innermost frame of the user's code, `file:line in function`."""
    by_user: bool
    """Whether a `raise` in the user's code raised it, where the text shows that."""


def tracebacks(lines: Sequence[str]) -> Iterator[Raised]:
    """Every traceback in *lines*, those of one rank together where lines say their rank."""
    streams: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        rest = unprefixed(line)
        streams[line[: len(line) - len(rest)]].append(rest)
    for stream in streams.values():
        yield from _in_stream(stream)


def is_source(line: str, before: Sequence[str]) -> bool:
    """Whether *line* is code that a traceback quotes, as the lines *before* it, oldest first, show."""
    rest = unprefixed(line)
    tag, depth = line[: len(line) - len(rest)], _depth(rest)
    for earlier in reversed(before if depth else ()):
        if not earlier.startswith(tag):
            continue  # another rank's
        other = earlier[len(tag) :]
        if FRAME.match(other):
            return _depth(other) < depth
        if not _depth(other):
            return False
    return False


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _in_stream(lines: Sequence[str]) -> Iterator[Raised]:
    frames: list[tuple[str, str, str]] | None = None
    source = ""  # of the innermost frame
    for line in lines:
        if line.strip() == START:
            frames = []
        elif frames is not None:
            match = FRAME.match(line)
            if match:
                frames.append((match["file"], match["line"], match["function"] or "<module>"))
                source = ""
            elif line[:1].isspace():
                source = source or line.strip()
            elif line:
                exception = EXCEPTION.match(line)
                if exception:
                    yield _raised(exception["name"], line, frames, source)
                frames = None


def _raised(name: str, line: str, frames: list[tuple[str, str, str]], source: str) -> Raised:
    own = [frame for frame in frames if not any(part in frame[0] for part in LIBRARIES)]
    place = "{}:{} in {}".format(*own[-1]) if own else None
    by_user = bool(own) and own[-1] == frames[-1] and source.startswith("raise ")
    return Raised(name.rpartition(".")[2], line, place, by_user)
