"""When a line was written, as far as what stands before the message says."""

import json
import re
from datetime import datetime, timezone
from typing import NamedTuple

_KMSG = re.compile(r"(?:\d+,)(?P<sequence>\d+),(?P<us>\d{1,18}),[^;]*;")
_UPTIME = re.compile(r"\[ *(?P<s>\d{1,12}\.\d{1,9})\]")
_NAMED_DAY = re.compile(
    r"\[?(?:\w{3} )?(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(?P<day>\d{1,2}) "
    r"(?P<clock>\d\d:\d\d:\d\d)(?:\.\d+)?(?: (?P<year>\d{4}))?"
)
_ISO = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)(?:[.,]\d+)?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_DAY = rf"(?:\w{{3}} )?\w{{3}} +\d{{1,2}} {_CLOCK}"
_BOOT = r"\[ *\d{1,12}\.\d{1,9}\] *(?:\[ *[TC]\d{1,10}\] *)?"
"""Seconds since boot, and what printk may put behind them: whose line it is."""
_HEAD = re.compile(
    r"(?:<\d{1,3}>(?:1 )?)?(?P<level>[a-z]{3,8} *:[a-z]{3,8} *: *)?"
    rf"(?:(?P<dmesg>{_BOOT}|\[{_DAY} \d{{4}}\] *"
    rf"|\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d,\d+[+-]\d\d:?\d\d )"
    rf"|\[?(?:\w{{3}} )?\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?\]?(?: [A-Z]{{3,5}})? +|{_DAY} +)?"
    r"(?:(?P<kernel>(?:[\w.-]{1,64} )?kernel(?:\[\d+\])?(?:: *| - - - ))"
    r"|[\w.-]{1,64} (?P<program>(?=[\w.@/-]{1,64}\[\d{1,10}\]: )))?"
    rf"(?P<uptime>{_BOOT})?"
)
_LABEL = re.compile(r"[\w.-]{1,64}: ")
"""What pdsh and srun put before a node's or a task's lines."""
_BEFORE_MESSAGE = 120
"""A time that stands later in a line is part of the message."""
_MOST_DIGITS = 18
"""Microseconds since 1970, until the year 9999 and a little less."""
_NO_YEAR = 2000
"""A leap year, for lines that name none."""


class Stamp(NamedTuple):
    """When a line was written."""

    at_s: float
    """Seconds, to be compared within one log only; 0 where the line says nothing."""
    shown: str | float | None
    """A wall-clock time as text (ISO 8601 where the line names the year), or seconds since boot."""


NO_STAMP = Stamp(0.0, None)


def plain_line(line: str) -> str:
    """A line as text: what `journalctl -o json` wraps is put as `-o short-iso` writes it."""
    if not line.startswith("{"):
        return line
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # torn, or nested without end
        return line
    message, then = entry.get("MESSAGE"), str(entry.get("__REALTIME_TIMESTAMP", ""))
    if not isinstance(message, str):
        return line
    whose = entry.get("SYSLOG_IDENTIFIER", "kernel")
    told = f"node {whose}: " if whose == "kernel" else f"node {whose}[{entry.get('_PID', 0)}]: "
    if not (then.isascii() and then.isdigit() and len(then) < _MOST_DIGITS):
        return told + message
    day = datetime.fromtimestamp(int(then) // 1_000_000, tz=timezone.utc)
    return f"{day:%Y-%m-%dT%H:%M:%S}Z {told}{message}"


def stamp_of(line: str) -> Stamp:
    """By the forms of /dev/kmsg, dmesg (-T, --time-format iso), journalctl and syslog."""
    head = line[:_BEFORE_MESSAGE]
    kmsg = _KMSG.match(head)
    if kmsg:
        seconds = int(kmsg["us"]) / 1e6
        return Stamp(seconds, seconds)
    iso = _ISO.search(head)
    if iso:
        return _on_the_clock(iso["day"], iso["clock"], iso["zone"] or "")
    named = _NAMED_DAY.search(head)
    if named:
        year = named["year"]
        try:
            day = datetime.strptime(
                f"{year or _NO_YEAR} {named['month']} {named['day']}", "%Y %b %d"
            ).replace(tzinfo=timezone.utc)
        except ValueError:
            return NO_STAMP
        found = _on_the_clock(f"{day:%Y-%m-%d}", named["clock"], "")
        if year or found is NO_STAMP:
            return found
        return Stamp(found.at_s, f"{named['month']} {named['day']:>2} {named['clock']}")
    uptime = _UPTIME.search(head)
    return Stamp(float(uptime["s"]), float(uptime["s"])) if uptime else NO_STAMP


def message_of(line: str) -> tuple[str, bool]:
    """
    A line without its head, and whether it has one that a log of the kernel has.

    What another program than the kernel says keeps that one's name in front, with its number.
    """
    kmsg = _KMSG.match(line)
    if kmsg:
        return line[kmsg.end() :].replace("\\x0a", "\n"), True
    line = line.strip()
    head = _HEAD.match(line)
    label = _LABEL.match(line)
    if label and not (head and head.end()):
        head = _HEAD.match(line, label.end())
    if not (head and head.end() > head.start()):
        return line, False
    is_known = any(head[group] for group in ("level", "kernel", "dmesg", "uptime", "program"))
    return line[head.end() :], is_known


def _on_the_clock(day: str, clock: str, zone: str) -> Stamp:
    if zone and zone != "Z" and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    text = f"{day}T{clock}{zone}"
    try:
        then = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return NO_STAMP
    return Stamp((then if then.tzinfo else then.replace(tzinfo=timezone.utc)).timestamp(), text)
