"""Raw bytes of a log -> lines that rules read: cleaned, with who wrote them and when."""

import re
from typing import NamedTuple

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_RANK = re.compile(r"\[(?:rank|RANK |rank: )(\d+)\]|^\[\d+,(\d+)\]<")
_RANK_OF_ALL = re.compile(r"\[Rank (\d+)\]|\[TP(?:\d+)\] \[Rank (\d+)\]")
"""Before torch 2.2 lines carried no `[rankN]`, and `[Rank N]` was the global rank; beside one it is
the rank inside a group."""
_LOCAL = re.compile(r"^\[(?:default)?(\d+)\]:|\blocal_rank: (\d+)|--local_rank=(\d+)")
_NODES = (
    re.compile(r"(?:^|[\s>:])([A-Za-z][\w.-]*):\d+:\d+ \[\d+\] "),  # NCCL: host:pid:tid [gpu]
    re.compile(r"^(?:[A-Z][a-z]{2} +\d+ [\d:]{8}|\S+T[\d:.]+\S*) ([\w.-]+) kernel:"),
    re.compile(r"^(?:\[[\d:]+\] )?slurmstepd-([\w.-]+):"),
    re.compile(r"\bip=(\d+(?:\.\d+){3})\)"),  # Ray
    re.compile(r"^(\d{1,3}(?:\.\d{1,3}){3}): "),  # pdsh, DeepSpeed
    re.compile(r"^((?!(?:cuda|gpu|step|epoch|iter|rank|worker)\d*:|slurmstepd)[a-z][a-z0-9.-]*\d[a-z0-9.-]*): "),
)  # fmt: skip
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905
_DAYS_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
_STAMPS = (
    re.compile(r"\d{4}-(?P<month>\d\d)-(?P<day>\d\d)[T _](?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d(?:[.,]\d+)?)"),
    re.compile(r"\[?[EWIF](?P<month>\d{1,2})(?P<day>\d\d) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d(?:\.\d+)?)"),
    re.compile(r"\b(?P<name>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)\b"),
    re.compile(r"\b(?P<month>\d\d)/(?P<day>\d\d)(?:/\d{2,4})? (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)\b"),
)  # fmt: skip
PROGRESS = re.compile(
    rb"(?:^|[\s\[|{'\"])(?:step|iter(?:ation)?|epoch|global_step|steps|loss|updates|it/s)\b[^\n\r]{0,40}?\d"
    rb"|\d(?:it/s|s/it)",
    re.IGNORECASE,
)
"""A line of a program that moves: step, epoch, loss or a progress bar."""


class Writer(NamedTuple):
    """Who wrote a line, as far as it says so."""

    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None


def clean(raw: bytes) -> str:
    """Text of *raw* without colours, NULs and line ends; what is no UTF-8 is replaced."""
    text = raw.replace(b"\0", b"").decode("utf-8", "replace")
    return (_ANSI.sub("", text) if "\x1b" in text else text).strip("\r\n")


def writer_of(line: str) -> Writer:
    """Who wrote *line*."""
    found = _RANK.search(line) or _RANK_OF_ALL.search(line)
    local = _LOCAL.search(line)
    node = next((match[1] for match in (each.search(line) for each in _NODES) if match), None)
    return Writer(_number(found), _number(local), node)


def seconds_of(text: str) -> float | None:
    """
    When a line was written, in seconds since the beginning of its (leap) year; None: it does not say.

    Logs mix formats of which some have no year.
    """
    for pattern in _STAMPS:
        found = pattern.search(text)
        seconds = found and _seconds(found)
        if seconds is not None:
            return seconds
    return None


def _seconds(found: "re.Match[str]") -> float | None:
    parts = found.groupdict()
    name = parts.get("name")
    if name is not None and name not in _MONTHS:
        return None
    month = _MONTHS.index(name) + 1 if name else int(parts["month"])
    day, hours, minutes = int(parts["day"]), int(parts["h"]), int(parts["m"])
    if not (1 <= month <= len(_MONTHS) and 1 <= day <= 31 and hours < 24 and minutes < 60):  # noqa: PLR2004 - a calendar
        return None
    days = _DAYS_BEFORE[month - 1] + day - 1
    return ((days * 24 + hours) * 60 + minutes) * 60 + float(parts["s"].replace(",", "."))


def _number(found: "re.Match[str] | None") -> int | None:
    if found is None:
        return None
    return next((int(group) for group in found.groups() if group), None)
