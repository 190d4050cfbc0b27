"""Raw bytes of a log -> lines that rules read: cleaned, with who wrote them and when."""

import re
from itertools import islice
from typing import NamedTuple

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_TAG = re.compile(
    r"(?:\[rank\d+\]:|\[(?:default)?(?P<local>\d+)\]:|\[\d+,(?P<rank>\d+)\]<std(?:err|out)>:"
    r"|\(\w+ pid=\d+(?:[^)]*\bip=(?P<ip>[\d.]+))?[^)]*\)|\d+:(?!\d)"
    r"|(?P<address>\d{1,3}(?:\.\d{1,3}){3}):(?=\s|$)"
    r"|(?P<host>(?!(?:cuda|gpu|step|epoch|iter|rank|worker)\d*:|slurmstepd)[a-z][a-z0-9.-]*\d[a-z0-9.-]*):(?=\s|$)"
    r")\s?"
)
"""What torch, torchrun, mpirun, Ray, `srun --label`, pdsh and DeepSpeed put before each line."""
_RANK = re.compile(r"\[(?:rank|RANK |rank: )(\d+)\]")
_RANK_OF_ALL = re.compile(r"\[Rank (\d+)\]|\[TP(?:\d+)\] \[Rank (\d+)\]")
"""Before torch 2.2 lines carried no `[rankN]`, and `[Rank N]` was the global rank; beside one it is
the rank inside a group."""
_LOCAL = re.compile(r"\blocal_rank: (\d+)|--local_rank=(\d+)")
_NODES = (
    re.compile(r"(?:^|[\s>:])([A-Za-z][\w.-]*):\d+:\d+ \[\d+\] "),  # NCCL: host:pid:tid [gpu]
    re.compile(r"^(?:[A-Z][a-z]{2} +\d+ [\d:]{8}|\S+T[\d:.]+\S*) ([\w.-]+) kernel:"),
    re.compile(r"^(?:\[[\d:]+\] )?slurmstepd-([\w.-]+):"),
)
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905
_DAYS_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
_STAMPS = (
    re.compile(r"\d{4}-(?P<month>\d\d)-(?P<day>\d\d)[T _](?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d(?:[.,]\d+)?)"),
    re.compile(r"\[?[EWIF](?P<month>\d{1,2})(?P<day>\d\d) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d(?:\.\d+)?)"),
    re.compile(r"\b(?P<name>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)\b"),
    re.compile(r"\b(?P<month>\d\d)/(?P<day>\d\d)(?:/\d{2,4})? (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)\b"),
)  # fmt: skip
MANY_STEPS = 8
"""Lines of progress that make sure that a program was, or is still, running."""
MOVES = re.compile(
    rb"(?:\b(?:step|iter(?:ation)?|global_step|updates)\b[\s\"':=\[(/]{0,4}\d|\bepoch\b[^\n\r]{0,24}\bloss\b|'loss': |\d(?:it/s|s/it))",
    re.IGNORECASE,
)


class Writer(NamedTuple):
    """Who wrote a line, as far as it says so."""

    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None


def clean(raw: bytes) -> str:
    """Text of *raw* without colours, NULs and line ends; what is no UTF-8 is replaced."""
    text = raw.replace(b"\0", b"").decode("utf-8", "replace")
    return (_ANSI.sub("", text) if "\x1b" in text else text).strip("\r\n")


def goes_on(data: bytes) -> bool:
    """Whether a program made many steps in *data*."""
    found = MOVES.finditer(data)
    return sum(1 for _ in islice(found, MANY_STEPS)) == MANY_STEPS


def split(line: str) -> tuple[Writer, str]:
    """What launchers put before *line* of its writer, and the line itself."""
    told: dict[str, str] = {}
    while match := _TAG.match(line):
        told = {key: value for key, value in match.groupdict().items() if value} | told
        line = line[match.end() :]
    node = told.get("ip") or told.get("address") or told.get("host")
    rank, local = told.get("rank"), told.get("local")
    return Writer(int(rank) if rank else None, int(local) if local else None, node), line


def unprefixed(line: str) -> str:
    """*line* without what tells its rank or node."""
    return split(line)[1]


def writer_of(line: str) -> Writer:
    """Who wrote *line*: its tags, or what NCCL, torch, the kernel and Slurm put inside."""
    tag = split(line)[0]
    rank = _number(_RANK.search(line))
    rank = tag.rank if rank is None else rank
    local = _number(_LOCAL.search(line))
    inside = next((match[1] for match in (each.search(line) for each in _NODES) if match), None)
    return Writer(
        _number(_RANK_OF_ALL.search(line)) if rank is None else rank,
        tag.local_rank if local is None else local,
        inside or tag.node,
    )


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
    return seconds_in_year(month, day, hours, minutes, float(parts["s"].replace(",", ".")))


def seconds_in_year(month: int, day: int, hours: int, minutes: int, seconds: float) -> float:
    """Seconds since the beginning of a leap year, so that formats without a year compare."""
    days = _DAYS_BEFORE[month - 1] + day - 1
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _number(found: "re.Match[str] | None") -> int | None:
    if found is None:
        return None
    return next((int(group) for group in found.groups() if group), None)
