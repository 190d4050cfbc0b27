"""
A bash text -> its commands, leniently: what cannot be understood is passed over, never an error.

Only what tells how ranks are started is kept: words, whether a command runs in the background, in
a loop, in a function, its here document. Commands inside `$(…)` and arithmetic are not looked at.
"""

import re

import msgspec

from slurm_resilience.lint.quoting import closing, unquoted
from slurm_resilience.lint.words import Document, Simple, Word

_SPACE = " \t\r\f\v"
_ASSIGNED_LIST = re.compile(r"[A-Za-z_]\w*\+?=")
_KEYWORDS = frozenset({
    "if", "then", "elif", "else", "fi", "do", "done", "case", "esac", "while", "until", "for",
    "select", "{", "}", "!", "time", "function", "coproc", "[[", "((",
})  # fmt: skip
_STRIPPED = frozenset({"if", "then", "elif", "else", "do", "while", "until", "{", "!", "time"})
"""Words before a command that are not its name."""
FAILED_READS = 8
"""Times the length of the text that may be searched in vain for a closing quote or bracket."""


def simple_commands(text: str, *, first_line: int = 1) -> list[Simple]:
    """All simple commands of *text*, in its order."""
    reader = _Reader(text, first_line)
    reader.read()
    return reader.commands


def words_in(text: str) -> list[Word]:
    """The words of *text* as one list, as in `NAME=(…)`."""
    return [word for command in simple_commands(text) for word in command.words]


class _Reader:
    """One pass over the text."""

    def __init__(self, text: str, first_line: int) -> None:
        self.commands: list[Simple] = []
        self._text = text
        self._at = 0
        self._line = first_line
        self._words: list[Word] = []
        self._word_line = first_line
        self._pipeline = 0
        """Index of the first command of the current pipeline."""
        self._groups: list[tuple[str, int]] = []
        """Open brackets, and the index of the first command in each."""
        self._loops = 0
        self._functions: list[tuple[str, int]] = []
        self._next_function = ""
        self._documents: list[tuple[Word, bool, int]] = []
        """Delimiter, whether tabs before it are passed over, index of the command."""
        self._patience = FAILED_READS * len(text) + 1000

    def read(self) -> None:
        while self._at < len(self._text):
            one = self._text[self._at]
            if one in _SPACE:
                self._at += 1
            elif self._text.startswith("\\\n", self._at):
                self._at += 2
                self._line += 1
            elif one == "\n":
                self._end(background=False)
                self._at += 1
                self._line += 1
                self._skip_documents()
            elif one == "#":
                self._at = self._end_of_line()
            elif one in ";&|":
                self._operator(one)
            elif one in "()":
                self._bracket(one)
            elif one in "<>":
                self._redirection()
            else:
                self._word()
        self._end(background=False)

    def _word(self) -> None:
        line = self._line
        word = self._read_word()
        after = self._text[self._at : self._at + 1]
        if after == "(" and _ASSIGNED_LIST.fullmatch(word.text):
            inside = self._enclosed(1, ")")
            if inside is not None:
                listed = " ".join(one.text for one in words_in(inside[:-1]))
                word = Word(word.text + listed, split=False)
        elif after in {"<", ">"} and word.text.isdecimal():
            return
        if not self._words:
            self._word_line = line
        if self._keyword(word.text):
            return
        self._words.append(word)

    def _read_word(self) -> Word:
        parts: list[str] = []
        split = True
        start = self._at
        while self._at < len(self._text):
            one = self._text[self._at]
            if one == "\\":
                self._escape(parts)
            elif one in "'\"":
                inside = self._enclosed(1, one)
                split = split and inside is None
                parts.append(one if inside is None else unquoted(inside[:-1], one))
            elif one == "$":
                parts.append(self._dollar())
            elif one == "`":
                inside = self._enclosed(1, "`")
                parts.append("`" if inside is None else "`" + inside)
            elif one in " \t\r\f\v\n;&|()<>":
                break
            else:
                parts.append(one)
                self._at += 1
        if self._at == start:
            self._at += 1
        return Word("".join(parts), split)

    def _escape(self, parts: list[str]) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "\n":
            self._line += 1
        else:
            parts.append(following)
        self._at += 2

    def _dollar(self) -> str:
        following = self._text[self._at + 1 : self._at + 2]
        if following in {"(", "{"}:
            inside = self._enclosed(2, ")" if following == "(" else "}")
            if inside is not None:
                return f"${following}{inside}"
        elif following in {"'", '"'}:
            self._at += 1
            return ""
        self._at += 1
        return "$"

    def _enclosed(self, skip: int, close: str) -> str | None:
        """What stands up to *close* (included), moving past it; None, one step on, if nothing."""
        end = closing(self._text, self._at + skip, close) if self._patience > 0 else -1
        if end < 0:
            self._patience -= len(self._text) - self._at
            self._at += 1 if close not in {")", "}"} or skip == 1 else 0
            return None
        inside = self._text[self._at + skip : end]
        self._line += inside.count("\n")
        self._at = end
        return inside

    def _keyword(self, text: str) -> bool:
        """Whether *text* at the start of a command is bash's own word; keeps count of blocks."""
        if self._words or text not in _KEYWORDS:
            return False
        if text in {"while", "until", "for", "select"}:
            self._open("loop")
        elif text == "done":
            self._close("loop")
        elif text == "{":
            self._open("{")
        elif text == "}":
            self._close("{")
        return text in _STRIPPED or text in {"}", "done", "fi", "esac"}

    def _operator(self, one: str) -> None:
        pair = self._text[self._at : self._at + 2]
        if pair in {"&>", ">&"}:
            self._at += 1
            self._redirection()
            return
        self._at += 2 if pair in {"&&", "||", "|&", ";;"} else 1
        goes_on = one == "|" or pair == "&&"
        self._end(background=one == "&" and pair != "&&", goes_on=goes_on)

    def _bracket(self, one: str) -> None:
        if self._text.startswith("((", self._at) and not self._words:
            inside = self._enclosed(2, ")")
            if inside is not None:
                return
            self._at += 2
            return
        self._at += 1
        if one == "(" and self._text.startswith(")", self._at) and len(self._words) == 1:
            self._at += 1
            self._next_function = self._words.pop().text
            return
        self._end(background=False)
        if one == "(":
            self._open("(")
        else:
            self._close("(")

    def _open(self, bracket: str) -> None:
        self._groups.append((bracket, len(self.commands)))
        self._loops += bracket == "loop"
        if self._next_function:
            self._functions.append((self._next_function, len(self._groups)))
            self._next_function = ""

    def _close(self, bracket: str) -> None:
        if not self._groups or self._groups[-1][0] != bracket:
            return
        if self._functions and self._functions[-1][1] == len(self._groups):
            self._functions.pop()
        _, first = self._groups.pop()
        self._loops -= bracket == "loop"
        self._pipeline = min(self._pipeline, first)

    def _redirection(self) -> None:
        text = self._text
        if text.startswith("<<<", self._at):
            self._at += 3
        elif text.startswith("<<", self._at):
            self._at += 2
            dash = text.startswith("-", self._at)
            self._at += dash
            self._pass_spaces()
            if self._at < len(text) and text[self._at] not in "\n;&|()<>":
                self._documents.append((self._read_word(), dash, len(self.commands)))
            return
        elif text[self._at : self._at + 2] in {"<(", ">("}:
            if self._enclosed(2, ")") is None:
                self._at += 2
            else:
                self._words.append(Word("/dev/fd/63", split=False))
            return
        else:
            self._at += 1
            while self._at < len(text) and text[self._at] in "<>&|":
                self._at += 1
        self._pass_spaces()
        if self._at < len(text) and text[self._at] not in "\n;&|()<>":
            self._read_word()

    def _pass_spaces(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in " \t":
            self._at += 1

    def _end(self, *, background: bool, goes_on: bool = False) -> None:
        words, self._words = self._words, []
        if words and words[0].text == "function" and len(words) > 1:
            self._next_function = words[1].text
            brace = [word.text for word in words[2:]]
            if "{" in brace:
                self._open("{")
            words = []
        if words and words[0].text in {"for", "select", "case"}:
            words = []
        if words:
            self.commands.append(
                Simple(
                    tuple(words),
                    self._word_line,
                    in_loop=self._loops > 0,
                    function=self._functions[-1][0] if self._functions else "",
                )
            )
        if background:
            for index in range(self._pipeline, len(self.commands)):
                self.commands[index] = msgspec.structs.replace(
                    self.commands[index], background=True
                )
        if not goes_on:
            self._pipeline = len(self.commands)

    def _skip_documents(self) -> None:
        for delimiter, dash, index in self._documents:
            start, first_line = self._at, self._line
            stop = start
            while self._at < len(self._text):
                end = self._end_of_line()
                line = self._text[self._at : end].rstrip("\r")
                stop = self._at
                self._at = min(end + 1, len(self._text))
                self._line += 1
                if (line.lstrip("\t") if dash else line) == delimiter.text:
                    break
                stop = self._at
            if index < len(self.commands):
                document = Document(self._text[start:stop], first_line, delimiter.split)
                self.commands[index] = msgspec.structs.replace(
                    self.commands[index], document=document
                )
        self._documents = []

    def _end_of_line(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end
