"""Texts that meet a pattern: one for each way through its alternatives."""

from collections.abc import Iterator, Sequence
from itertools import islice, product
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

MOST = 4096
"""Of one pattern."""


def examples(pattern: str) -> set[str]:
    """
    The shortest text for each way: what may be left out is left out, and where any of many
    characters may stand a NUL does.
    """
    return set(islice(_of(parser.parse(pattern)), MOST))


def _of(parts: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    for choice in product(*(list(_of_part(*part)) for part in parts)):
        yield "".join(choice)


def _of_part(code: Any, value: Any) -> Iterator[str]:  # noqa: ANN401, C901 - as `re` has it
    match code, value:
        case codes.LITERAL, int():
            yield chr(value)
        case codes.BRANCH, (_, list() as ways):
            for way in ways:
                yield from _of(way)
        case codes.SUBPATTERN, (_, _, _, inside):
            yield from _of(inside)
        case codes.MAX_REPEAT | codes.MIN_REPEAT, (0, _, _):
            yield ""
        case codes.MAX_REPEAT | codes.MIN_REPEAT, (_, _, inside):
            yield from _of(inside)
        case codes.IN, [(codes.LITERAL, _), *_] if all(
            each is codes.LITERAL for each, _ in value
        ):
            for _, character in value:
                yield chr(character)
        case codes.IN | codes.ANY | codes.NOT_LITERAL, _:
            yield "\0"
        case codes.AT | codes.ASSERT | codes.ASSERT_NOT, _:
            yield ""
        case _:
            raise ValueError(f"no example of {code}")
