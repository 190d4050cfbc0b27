"""What a bash text consists of: words, simple commands, here documents."""

import msgspec


class Word(msgspec.Struct, frozen=True):
    """One word without its quotes; `split`: bash would split it further once it is expanded."""

    text: str
    split: bool = True


class Document(msgspec.Struct, frozen=True):
    """A here document: what a command reads from its standard input."""

    text: str
    line: int
    """Its first."""
    expands: bool
    """Whether bash puts in the values of variables."""


class Simple(msgspec.Struct, frozen=True):
    """One simple command."""

    words: tuple[Word, ...]
    line: int
    background: bool = False
    in_loop: bool = False
    function: str = ""
    document: Document | None = None
