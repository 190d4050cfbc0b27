"""A batch script as read: what Slurm is asked, what bash will do. No judgement."""

import re
from collections.abc import Iterator, Sequence
from posixpath import basename

import msgspec

from slurm_resilience.lint.expansion import Variables, assignment
from slurm_resilience.lint.options import Option, directive_words, parse
from slurm_resilience.lint.shell import simple_commands
from slurm_resilience.lint.words import Document, Simple

SHELLS = frozenset({"bash", "sh", "zsh", "ksh", "dash"})
DECLARING = frozenset({"export", "declare", "local", "readonly", "typeset"})
SILENCE = re.compile(r"#\s*slurm-resilience:\s*ignore=([\w,.-]+)")
MOST_COMMANDS = 20_000
DEEPEST = 3
"""`bash -c` within `bash -c`."""


class Assignment(msgspec.Struct, frozen=True):
    """`NAME=value`, expanded as far as it is known."""

    name: str
    value: str
    line: int


class Command(msgspec.Struct, frozen=True):
    """One simple command, expanded; one that srun starts carries srun's options as its step."""

    words: tuple[str, ...]
    line: int
    background: bool = False
    in_loop: bool = False
    function: str = ""
    is_exec: bool = False
    step: tuple[Option, ...] | None = None

    @property
    def name(self) -> str:
        """The program without its folder."""
        return basename(self.words[0]) if self.words else ""


class Inner(msgspec.Struct, frozen=True):
    """A script that another one hands to sbatch: `--wrap`, or a here document."""

    script: "Script"
    line: int
    """Of the sbatch."""
    offset: int | None
    """Lines before its own first one; None: it stands in the sbatch's own line."""


class Script(msgspec.Struct, frozen=True):
    """One file."""

    lines: tuple[str, ...]
    """With their line ends."""
    interpreter: str = ""
    """Its `#!` line without these two; empty where it has none."""
    options: tuple[Option, ...] = ()
    """What sbatch reads, of the first component."""
    is_het: bool = False
    last_directive: int = 0
    """Line of the last `#SBATCH` that is read; 0: there is none."""
    unread: tuple[int, ...] = ()
    """Lines that look like directives and come too late, or not at the start of their line."""
    commands: tuple[Command, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    silenced: tuple[tuple[str, int], ...] = ()
    """Rule and line of each `# slurm-resilience: ignore=…`."""
    inner: tuple[Inner, ...] = ()
    file: str = ""
    """Its whole path; empty where it has none."""

    def option(self, name: str) -> Option | None:
        """The last *name* that sbatch is given, which is the one that counts."""
        return next((one for one in reversed(self.options) if one.name == name), None)

    @property
    def is_shell(self) -> bool:
        """Whether a shell runs it."""
        words = self.interpreter.split()
        names = [basename(word) for word in words[:2]]
        return bool(names) and (
            names[0] in SHELLS or (names[0] == "env" and names[-1] in SHELLS)
        )


def read(text: str, *, file: str = "") -> Script:
    """The script in *text*, of the path *file* where it has one; never fails."""
    return msgspec.structs.replace(_script(text, depth=0), file=file)


def _script(text: str, *, depth: int) -> Script:
    lines = tuple(re.findall(r"[^\n]*\n|[^\n]+", text))
    words, is_het, last, end = _directives(lines)
    interpreter = lines[0][2:].strip() if lines and lines[0].startswith("#!") else ""
    script = Script(
        lines,
        interpreter,
        options=parse(words, tool="#SBATCH").options,
        is_het=is_het,
        last_directive=last,
        unread=tuple(_unread(lines, end)),
        silenced=tuple(_silenced(lines)),
    )
    if interpreter and not script.is_shell:
        return script
    reading = _Reading()
    reading.read(simple_commands(text.replace("\r\n", "\n")), None, depth=depth)
    return msgspec.structs.replace(
        script,
        commands=tuple(reading.commands),
        assignments=tuple(reading.assignments),
        inner=tuple(reading.inner),
    )


# ── directives ──────────────────────────────────────────────────────────────────────────────


def _directives(lines: Sequence[str]) -> tuple[list[tuple[str, int]], bool, int, int]:
    """Words with their lines; whether it is a het job; the last directive; where reading ends."""
    words: list[tuple[str, int]] = []
    last = 0
    for number, line in enumerate(lines, 1):
        for magic in ("#SBATCH", "#SLURM"):
            if line.startswith(magic):
                rest = line.removeprefix(magic).rstrip("\r\n")
                if re.match(r"\s*(?:hetjob|packjob)(?:\s|$)", rest, re.IGNORECASE):
                    return words, True, last, len(lines)
                words += [(word, number) for word in directive_words(rest)]
                last = number
                break
        else:
            if line.strip() and not line.lstrip().startswith("#"):
                return words, False, last, number
    return words, False, last, len(lines)


def _unread(lines: Sequence[str], end: int) -> Iterator[int]:
    document = ""
    for number, line in enumerate(lines, 1):
        if document:
            document = "" if line.strip() == document else document
            continue
        opened = re.search(r"(?<!<)<<-?\s*(['\"]?)(\w+)\1", line)
        if opened and not line.lstrip().startswith("#"):
            document = opened[2]
        late = number > end and re.match(r"#SBATCH\s+-", line)
        if late or re.match(r"[ \t]+#SBATCH\s+-", line):
            yield number


def _silenced(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    for number, line in enumerate(lines, 1):
        for found in SILENCE.finditer(line):
            yield from ((rule, number) for rule in found[1].split(",") if rule)


# ── commands ────────────────────────────────────────────────────────────────────────────────


class _Reading:
    """Commands in the order of the script, with what its variables hold there."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.assignments: list[Assignment] = []
        self.inner: list[Inner] = []
        self._variables = Variables()

    def read(self, found: Sequence[Simple], under: Command | None, *, depth: int) -> None:
        for simple in found:
            if len(self.commands) >= MOST_COMMANDS:
                return
            words = list(simple.words)
            while words and (parts := assignment(words[0].text)):
                self._assign(parts, simple.line)
                words.pop(0)
            if words and words[0].text in DECLARING:
                for word in words[1:]:
                    if parts := assignment(word.text):
                        self._assign(parts, simple.line)
            expanded = list(self._variables.words(words))
            is_exec = expanded[:1] == ["exec"] and len(expanded) > 1
            if is_exec:
                expanded.pop(0)
            if expanded:
                command = Command(
                    tuple(expanded),
                    simple.line,
                    background=simple.background or bool(under and under.background),
                    in_loop=simple.in_loop or bool(under and under.in_loop),
                    function=simple.function or (under.function if under else ""),
                    is_exec=is_exec or bool(under and under.is_exec),
                    step=under.step if under else None,
                )
                self._command(command, depth)
                if command.name == "sbatch" and depth < DEEPEST:
                    self._submission(command, simple.document, depth)

    def _submission(self, command: Command, document: Document | None, depth: int) -> None:
        """What this sbatch is handed, where it stands here; its own options come last."""
        words = [(word, command.line) for word in command.words[1:]]
        options = parse(words, tool="sbatch").options
        wrapped = next((one.value for one in options if one.name == "wrap"), None)
        if wrapped is not None:
            text, offset = f"#!/bin/sh\n{wrapped}", None
        elif document is not None:
            text, offset = document.text, document.line - 1
            if document.expands:
                text = self._variables.expanded(text).replace("\\$", "$")
        else:
            return
        script = _script(text, depth=depth + 1)
        placed = [
            Option(one.name, one.value, 0 if offset is None else max(0, one.line - offset))
            for one in options
        ]
        script = msgspec.structs.replace(
            script,
            options=(*script.options, *placed),
            last_directive=max(script.last_directive, 1),
        )
        self.inner.append(Inner(script, command.line, offset))

    def _assign(self, parts: tuple[str, str, bool], line: int) -> None:
        name, value, appended = parts
        value = self._variables.set(name, self._variables.expanded(value), appended=appended)
        self.assignments.append(Assignment(name, value, line))

    def _command(self, command: Command, depth: int) -> None:
        self.commands.append(command)
        if command.name in {"read", "mapfile", "getopts", "unset"}:
            for word in command.words[1:]:
                self._variables.forget(word)
        if depth >= DEEPEST:
            return
        if command.name == "srun":
            words = [(word, command.line) for word in command.words[1:]]
            parsed = parse(words, tool="srun")
            step = (*(command.step or ()), *parsed.options)
            if parsed.rest:
                inner = msgspec.structs.replace(command, words=parsed.rest, step=step)
                self._command(inner, depth + 1)
            return
        if text := _given_to_shell(command.words):
            inside = simple_commands(text, first_line=command.line)
            self.read(inside, command, depth=depth + 1)


def _given_to_shell(words: Sequence[str]) -> str:
    """The text behind `bash -c` (`-lc`, …), wherever it stands among *words*."""
    for index, word in enumerate(words[:-2]):
        if basename(word) in SHELLS:
            for place in range(index + 1, len(words) - 1):
                if not words[place].startswith("-"):
                    break
                if re.fullmatch(r"-[a-z]*c", words[place]):
                    return words[place + 1]
    return ""
