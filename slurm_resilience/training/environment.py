"""What a training runs in beside its own state, and what of it has changed. Pure."""

from collections.abc import Iterator, Mapping

import msgspec

MOST_NAMED = 8
MOST_TEXT = 60


class Environment(msgspec.Struct, frozen=True):
    """What one attempt found around it; None: not known."""

    python: str
    packages: dict[str, str]
    """Versions by name."""
    cuda: str | None
    """That torch was built for."""
    driver: str | None
    """NVIDIA's, of the node of rank 0."""
    image: str | None
    """The container, by its digest where it is known."""
    commit: str | None
    """Of the directory that the script lies in; with a + where files differ from it."""
    argv: tuple[str, ...]


def differences(then: Environment, now: Environment) -> str:
    """What differs, on one line, the most telling first; empty: nothing that is known of both."""
    found = [*_differences(then, now)]
    shown = "; ".join(found[:MOST_NAMED])
    more = len(found) - MOST_NAMED
    return f"{shown}; and {more} more" if more > 0 else shown


def _differences(then: Environment, now: Environment) -> Iterator[str]:
    for name in ("commit", "image", "driver", "cuda", "python"):
        before, after = getattr(then, name), getattr(now, name)
        if before is not None and after is not None and before != after:
            yield f"{name} {_cut(before)} -> {_cut(after)}"
    if then.argv != now.argv:
        yield f"arguments {_words(then.argv, now.argv)}"
    yield from _packages(then.packages, now.packages)


def _packages(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    changed = {name for name in {*then, *now} if then.get(name) != now.get(name)}
    for name in sorted(changed, key=lambda name: (name != "torch", name)):
        yield f"{name} {_cut(then.get(name, 'none'))} -> {_cut(now.get(name, 'none'))}"


def _words(then: tuple[str, ...], now: tuple[str, ...]) -> str:
    gone = " ".join(word for word in then if word not in now)
    new = " ".join(word for word in now if word not in then)
    return f"{_cut(gone)!r} -> {_cut(new)!r}" if gone or new else "in another order"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
