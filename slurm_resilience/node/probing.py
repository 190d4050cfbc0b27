"""
Probes at work, each in a child of its own, all at once.

Answers cross over as Python literals: importing json in the child would take longer than most
probes.
"""

from __future__ import annotations

from slurm_resilience import bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_ANSWER, _FAILURE = b"=", b"!"


class Answers:
    """What came back: raw answers by name, and the names of those that gave none in time."""

    __slots__ = ("hung", "raw")

    def __init__(self, raw: dict[str, bytes], hung: tuple[str, ...]) -> None:
        self.raw = raw
        self.hung = hung

    def read(self) -> tuple[dict[str, object], dict[str, str]]:
        """Values by name, and for those that failed why."""
        from ast import literal_eval  # noqa: PLC0415 - the fast path compares bytes

        values, unread = {}, {}
        for name, raw in self.raw.items():
            text = raw[1:].decode("utf-8", "replace")
            if raw.startswith(_ANSWER):
                values[name] = literal_eval(text)
            else:
                unread[name] = text
        return values, unread


def start(
    probe: Callable[..., object], *, deadline: float, **arguments: object
) -> bounded.Child:
    """Begin `probe(**arguments)`, which returns plain builtins, in a child."""
    return bounded.Child(lambda: (repr(probe(**arguments)).encode(),), deadline=deadline)


def gather(children: Mapping[str, bounded.Child], hanging: Iterable[str] = ()) -> Answers:
    """
    Wait until each child has answered or its deadline has passed.

    *hanging*: those that were not asked, as an earlier child of theirs still hangs.
    """
    raw, hung = {}, [*hanging]
    for name, answer in bounded.gather(children).items():
        if answer.is_late:
            hung.append(name)
        elif answer.trouble:
            raw[name] = _FAILURE + answer.trouble.encode()
        else:
            raw[name] = _ANSWER + answer.items[0]
    return Answers(raw, tuple(hung))
