"""What a rule says: findings, and the changes that mend them."""

import msgspec


class Insert(msgspec.Struct, frozen=True):
    """A line to put behind the last directive."""

    text: str


class Replace(msgspec.Struct, frozen=True):
    """A line to put in the place of another; without its line end."""

    line: int
    text: str


class UnixLineEnds(msgspec.Struct, frozen=True):
    """Every line to end as Unix has it."""


Edit = Insert | Replace | UnixLineEnds


class Finding(msgspec.Struct, frozen=True):
    """One thing wrong with a script."""

    rule: str
    line: int
    """From 1; 0: something is missing."""
    message: str
    fix: str
    """What to do, in words."""
    edit: Edit | None = None
    """The same as a change that is safe."""
