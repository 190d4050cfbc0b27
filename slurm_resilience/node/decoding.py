"""A kernel log's lines -> what each fault in it asks for. Pure."""

from collections.abc import Iterable

import msgspec

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Severity
from slurm_resilience.node.kernel_lines import Kind, Reading
from slurm_resilience.node.kernel_lines.lines import may_tell, message_in
from slurm_resilience.node.kernel_lines.reading import MOST_EVENTS
from slurm_resilience.node.kernel_lines.stamps import plain_line, stamp_of
from slurm_resilience.node.rules.kernel import judgements, subject_of
from slurm_resilience.node.settings import NodeSettings

IGNORE = "ignore"


class Decoded(msgspec.Struct, frozen=True):
    """One fault of a log."""

    kind: Kind
    code: int | None
    """Of an Xid or SXid."""
    subject: str
    """A PCI address `0000:05:00.0`, a disk, an interface, a server, a process, or `node`."""
    time: str | float | None
    """Of its first line: wall clock as text, or seconds since boot; null where none stands there."""
    verdict: str
    """ignore, unknown, warn, drain-when-idle or drain."""
    why: str
    text: str
    """The message, of the first time."""
    count: int
    file: str


def decode(lines: Iterable[str], settings: NodeSettings, *, file: str) -> tuple[Decoded, ...]:
    """Each fault that *lines* tell of, by its first line. What is kept does not grow with them."""
    reading = Reading()
    times: dict[int, str | float | None] = {}
    for number, raw in enumerate(lines):
        if not may_tell(raw):
            continue
        line = plain_line(raw)
        stamp = stamp_of(line)
        event = reading.add(message_in(line), number, stamp.at_s)
        if event and event.first == number:
            times[number] = stamp.shown
            if len(times) > 2 * MOST_EVENTS:
                held = {one.first for one in reading.events}
                times = {first: shown for first, shown in times.items() if first in held}
    facts = NodeFacts("", kernel_events=reading.events)
    found = sorted(judgements(facts, settings), key=lambda judged: judged.event.first)
    return tuple(
        Decoded(
            judged.event.kind,
            judged.event.code,
            subject_of(judged),
            times.get(judged.event.first),
            IGNORE if judged.severity is Severity.OK else judged.severity.value,
            judged.why,
            judged.event.text,
            judged.event.count,
            file,
        )
        for judged in found
    )
