"""What starts the ranks: torchrun and its kin among a script's commands."""

import re
from collections.abc import Iterator, Sequence
from posixpath import basename
from typing import Literal

import msgspec

from slurm_resilience.lint.facts import Command, Script
from slurm_resilience.watch.torchrun import MODULES, PROGRAMS

Kind = Literal["torchrun", "accelerate", "deepspeed", "python"]

LIKE_TORCHRUN = PROGRAMS | {"ft_launcher"}
"""They take torchrun's options."""
MENTIONS = frozenset({
    "[", "[[", ".", "apt", "cat", "cd", "chmod", "command", "conda", "cp", "echo", "export",
    "find", "git", "grep", "kill", "killall", "ls", "mamba", "mkdir", "ml", "module", "mv", "pip",
    "pip3", "pkill", "printf", "ps", "rm", "rsync", "sbatch", "scancel", "scontrol", "sed",
    "source", "squeue", "tee", "test", "trap", "type", "wget", "which",
})  # fmt: skip
"""They name a launcher and do not start it."""
REMOTE = frozenset({
    "clush", "jsrun", "mpiexec", "mpirun", "mpirun.real", "orterun", "parallel", "pdsh", "prun", "ssh",
})  # fmt: skip
"""They bring a command to other nodes by ways of their own."""
LONGEST_PATH = 4096
SETTINGS = (".cfg", ".json", ".toml", ".txt", ".yaml", ".yml")
"""Endings of files that are no program."""
FARTHEST = 500
"""Words of wrappers and their options that may stand before a launcher."""
_TRAINS = re.compile(
    r"(?i)(?:^|[/_.\-])(?:pre|post)?(?:train|trainer|training|finetune|fine[-_]tune|sft|fit)"
)
_ELSE = re.compile(
    r"(?i)(?:^|[/_.\-])(?:(?:light|lm_?)?evals?|evalharness|evaluate|evaluation|infer|inference|generate|predict|convert|export|"
    r"preprocess|tokenize|prepare|merge|bench|benchmark|test|tests|serve|server|all_reduce_bench)"
    r"(?:$|[/_.\-])"
)


class Launch(msgspec.Struct, frozen=True):
    """One command that starts ranks."""

    kind: Kind
    arguments: tuple[str, ...]
    """Behind the launcher's name: its own options, the script, the script's arguments."""
    command: Command
    supervised: bool = False
    """`slurm-resilience run` starts it."""

    @property
    def line(self) -> int:
        """Where it stands."""
        return self.command.line

    @property
    def is_remote(self) -> bool:
        """Whether something else than srun brings it to the nodes."""
        return self.command.name in REMOTE

    @property
    def trains(self) -> bool:
        """Whether it surely is training."""
        if self.supervised:
            return True
        folder, _, name = self._program.rpartition("/")
        named = (
            self.kind != "python" or _TRAINS.search(name) or _TRAINS.search(basename(folder))
        )
        return bool(named) and not self.is_something_else

    @property
    def is_something_else(self) -> bool:
        """Whether its name, or that of its folder, says evaluation, conversion, a test or the like."""
        folder, _, name = self._program.rpartition("/")
        if _ELSE.search(name):
            return True
        return bool(_ELSE.search(basename(folder))) and not _TRAINS.search(name)

    @property
    def _program(self) -> str:
        return next((word for word in self.arguments if _is_program(word)), "")

    def value(self, *names: str) -> str | None:
        """The value of the last of these options (spelt with `-`), from any place behind it."""
        found = None
        for index, word in enumerate(self.arguments):
            name, equals, value = word.partition("=")
            if name.lstrip("-").replace("_", "-") in names and name.startswith("-"):
                following = self.arguments[index + 1 : index + 2]
                found = value if equals else (following[0] if following else None)
        return found

    def has(self, name: str) -> bool:
        """Whether this option stands anywhere behind the launcher."""
        return any(
            word.partition("=")[0].lstrip("-").replace("_", "-") == name
            for word in self.arguments
            if word.startswith("-")
        )


def launches(script: Script) -> tuple[Launch, ...]:
    """Everything in *script* that starts ranks."""
    return tuple(_found(script.commands))


def _found(commands: Sequence[Command]) -> Iterator[Launch]:
    for command in commands:
        if command.name in MENTIONS or command.name == "srun":
            continue
        words, supervised = _behind_supervisor(command.words)
        launch = _launch(words)
        if launch:
            yield Launch(*launch, command, supervised=supervised)
        elif supervised:
            yield Launch("python", tuple(words), command, supervised=True)


def _behind_supervisor(words: Sequence[str]) -> tuple[Sequence[str], bool]:
    for index, word in enumerate(words[:-1]):
        ours = basename(word) == "slurm-resilience" or (
            word == "slurm_resilience" and words[index - 1] == "-m"
        )
        if ours and words[index + 1] == "run":
            return words[index + 2 :], True
    return words, False


def _launch(words: Sequence[str]) -> tuple[Kind, tuple[str, ...]] | None:
    for index, word in enumerate(words[:FARTHEST]):
        if len(word) > LONGEST_PATH or "\n" in word or " " in word:
            continue
        name, rest = basename(word), tuple(words[index + 1 :])
        if name in LIKE_TORCHRUN:
            return "torchrun", rest
        if name == "accelerate" and "launch" in rest[:1]:
            return "accelerate", rest[1:]
        if name == "deepspeed":
            return "deepspeed", rest
        if re.fullmatch(r"python[\d.]*", name):
            return _of_python(rest)
    return None


def _of_python(rest: tuple[str, ...]) -> tuple[Kind, tuple[str, ...]]:
    for index, word in enumerate(rest):
        if word == "-m" and rest[index + 1 : index + 2]:
            module, behind = rest[index + 1], rest[index + 2 :]
            if module in MODULES:
                return "torchrun", behind
            if module == "accelerate.commands.launch":
                return "accelerate", behind
            return "python", rest
        if _is_program(word):
            break
    return "python", rest


def _is_program(word: str) -> bool:
    if word.startswith("-") or word.endswith(SETTINGS):
        return False
    return word.endswith((".py", ".sh")) or bool(re.fullmatch(r"[A-Za-z_]\w*(?:\.\w+)+", word))
