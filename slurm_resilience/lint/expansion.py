"""Variables of a script, as far as their values stand in it."""

import re
from collections.abc import Sequence

from slurm_resilience.lint.shell import words_in
from slurm_resilience.lint.words import Word

MOST = 20_000
"""Characters of one expanded word: a script can double a text with every line."""
MOST_IN_ALL = 1_000_000
"""Past so many a script is left unexpanded."""
_NAME = r"[A-Za-z_]\w*"
_ASSIGNMENT = re.compile(rf"({_NAME})(?:\[[^\]]*\])?(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(
    rf"\$(?:({_NAME})|\{{({_NAME})(?:\[[@*]\])?(?:(:?[-=])([^{{}}]*))?\}})", re.DOTALL
)


def assignment(word: str) -> tuple[str, str, bool] | None:
    """Name, value and whether it is appended, where *word* is `NAME=value`; else None."""
    found = _ASSIGNMENT.fullmatch(word)
    return (found[1], found[3], bool(found[2])) if found else None


class Variables:
    """Values known so far, in the order of the script and whatever branch they stand in."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._room = MOST_IN_ALL

    def set(self, name: str, value: str, *, appended: bool) -> str:
        """Remember a value, already expanded; returns what the variable holds now."""
        if appended:
            before = self._values.get(name, "")
            value = f"{before} {value}".strip() if before else value
        self._values[name] = value[:MOST]
        return self._values[name]

    def forget(self, name: str) -> None:
        """From here on the value is not known: it was read, or counted through."""
        self._values.pop(name, None)

    def expanded(self, text: str) -> str:
        """*text* with the values that are known; the rest stays as it stands."""
        if "$" not in text or self._room <= 0:
            return text
        done = _VARIABLE.sub(self._value, text)[:MOST]
        self._room -= len(done)
        return done

    def _value(self, found: "re.Match[str]") -> str:
        name = found[1] or found[2]
        if name in self._values:
            return self._values[name]
        if found[3] and "$" not in found[4]:
            return found[4].strip("\"'")
        return found[0]

    def words(self, words: Sequence[Word]) -> tuple[str, ...]:
        """*words* expanded, and split again where bash would."""
        done: list[str] = []
        for word in words:
            text = self.expanded(word.text)
            if text != word.text and (word.split or "[@]" in word.text):
                done += [one.text for one in words_in(text)]
            else:
                done.append(text)
            if len(done) > MOST:
                break
        return tuple(done[:MOST])
