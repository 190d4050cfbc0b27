"""
Options of sbatch and srun, read as their getopt does: short and long ones, unique beginnings of
long ones, `=` or the next word for the value.
"""

from collections.abc import Iterable, Iterator

import msgspec

SHORT = {
    "a": "array", "A": "account", "b": "begin", "B": "extra-node-info", "c": "cpus-per-task",
    "C": "constraint", "d": "dependency", "D": "chdir", "e": "error", "F": "nodefile",
    "G": "gpus", "h": "help", "H": "hold", "i": "input", "I": "immediate", "J": "job-name",
    "k": "no-kill", "K": "kill-on-bad-exit", "l": "label", "L": "licenses",
    "m": "distribution", "M": "clusters", "n": "ntasks", "N": "nodes", "o": "output",
    "O": "overcommit", "p": "partition", "q": "qos", "Q": "quiet", "r": "relative",
    "s": "oversubscribe", "S": "core-spec", "t": "time", "u": "usage", "v": "verbose",
    "V": "version", "w": "nodelist", "W": "wait", "x": "exclude", "X": "disable-status",
    "Z": "no-allocate",
}  # fmt: skip
FLAGS = frozenset({
    "async", "bell", "consolidate-segments", "contiguous", "debugger-test", "disable-status",
    "exact", "external", "help", "hold", "ignore-pbs", "interactive", "label", "multi-prog",
    "no-allocate", "no-bell", "no-requeue", "no-shell", "overcommit", "oversubscribe",
    "parsable", "preserve-env", "quiet", "quit-on-interrupt", "reboot", "spread-job",
    "spread-segments", "stepmgr", "test-only", "unbuffered", "usage", "use-min-nodes",
    "verbose", "version", "wait-for-children", "whole",
})  # fmt: skip
OPTIONAL = frozenset({
    "bcast", "compress", "exclusive", "external-launcher", "get-user-env", "immediate",
    "kill-command", "kill-on-bad-exit", "nice", "no-kill", "oom-kill-step", "overlap",
    "propagate", "pty", "requeue", "resv-ports", "send-libs",
})  # fmt: skip
"""Take a value only behind `=`, or glued to their letter."""
VALUED = frozenset({
    "accel-bind", "account", "acctg-freq", "array", "batch", "bb", "bbf", "bcast-exclude",
    "begin", "chdir", "cluster-constraint", "clusters", "comment", "constraint", "container",
    "container-env", "container-id", "container-image", "container-mounts", "container-name",
    "container-save", "container-workdir", "context", "core-spec", "cores-per-socket",
    "cpu-bind", "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot",
    "dependency", "distribution", "epilog", "error", "exclude", "export", "export-file",
    "extra", "extra-node-info", "gid", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node",
    "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "het-group", "hint",
    "ignore-signals", "input", "job-name", "jobid", "kill-on-invalid-dep", "licenses",
    "mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu",
    "mem-update", "mincpus", "mpi", "msg-timeout", "network", "nodefile", "nodelist", "nodes",
    "ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket",
    "ntasks-per-tres", "open-mode", "output", "partition", "power", "prefer", "priority",
    "profile", "prolog", "qos", "relative", "reservation", "resources", "runtime", "segment",
    "signal", "slurmd-debug", "sockets-per-node", "switches", "task-epilog", "task-prolog",
    "thread-spec", "threads", "threads-per-core", "time", "time-min", "tmp", "treewidth",
    "tres-bind", "tres-per-task", "uid", "wait-all-nodes", "wckey", "wrap",
})  # fmt: skip
ALIASES = {
    "cluster": "clusters", "pack-group": "het-group", "share": "oversubscribe",
    "tasks-per-node": "ntasks-per-node", "workdir": "chdir",
}  # fmt: skip


class Option(msgspec.Struct, frozen=True):
    """One option by its long name; value None where it has none."""

    name: str
    value: str | None
    line: int


class Parsed(msgspec.Struct, frozen=True):
    """Options before the first other word, and what follows."""

    options: tuple[Option, ...] = ()
    rest: tuple[str, ...] = ()


def parse(words: Iterable[tuple[str, int]], *, tool: str) -> Parsed:
    """
    *words* with their line numbers -> options.

    For sbatch's directives (*tool* `#SBATCH`) a stray word is passed over; a command's own
    options end at the first word that is none.
    """
    options: list[Option] = []
    waiting = list(words)
    at = 0
    while at < len(waiting):
        word, line = waiting[at]
        at += 1
        if word == "--" or not word.startswith("-") or word == "-":
            if tool == "#SBATCH":
                continue
            at -= word != "--"
            break
        following = waiting[at][0] if at < len(waiting) else None
        read, used = _read(word, line, following, tool)
        options += read
        at += used
    return Parsed(tuple(options), tuple(word for word, _ in waiting[at:]))


def _read(word: str, line: int, following: str | None, tool: str) -> tuple[list[Option], bool]:
    """The options in one word, and whether the word after it was its value."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        name = _full_name(name)
        if equals:
            return [Option(name, value, line)], False
        if following is not None and _takes_value(name, tool):
            return [Option(name, following, line)], True
        return [Option(name, None, line)], False
    return _short(word[1:], line, following, tool)


def _short(
    letters: str, line: int, following: str | None, tool: str
) -> tuple[list[Option], bool]:
    found: list[Option] = []
    for index, letter in enumerate(letters):
        name = SHORT.get(letter, letter)
        rest = letters[index + 1 :]
        if name in OPTIONAL:
            return [*found, Option(name, rest.removeprefix("=") or None, line)], False
        if not _takes_value(name, tool):
            found.append(Option(name, None, line))
        elif rest:
            return [*found, Option(name, rest.removeprefix("="), line)], False
        else:
            return [*found, Option(name, following, line)], following is not None
    return found, False


def _full_name(name: str) -> str:
    known = VALUED | FLAGS | OPTIONAL | {"wait"}
    name = ALIASES.get(name, name)
    if name in known:
        return name
    meant = [other for other in known if other.startswith(name)] if name else []
    return meant[0] if len(meant) == 1 else name


def _takes_value(name: str, tool: str) -> bool:
    # sbatch's --wait is a flag, srun's takes seconds.
    return name in VALUED or (name == "wait" and tool == "srun")


def directive_words(line: str) -> Iterator[str]:
    """
    The words behind `#SBATCH` as sbatch cuts them: quotes group, a backslash keeps the next
    character, an unquoted `#` ends the line. A quote that is never closed ends with the line
    (sbatch itself refuses it).
    """
    word: list[str] = []
    quote, started, at = "", False, 0
    while at < len(line):
        one = line[at]
        at += 1
        if one == "\\" and at < len(line):
            word.append(line[at])
            at += 1
            started = True
        elif quote:
            if one == quote:
                quote = ""
            else:
                word.append(one)
        elif one in "\"'":
            quote, started = one, True
        elif one == "#":
            break
        elif one.isspace():
            if started or word:
                yield "".join(word)
            word, started = [], False
        else:
            word.append(one)
    if started or word:
        yield "".join(word)
