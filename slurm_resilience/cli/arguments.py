"""Values on the command line: each is taken or refused with what is meant, a long one cut short."""

import argparse
import math
import re
from pathlib import Path

from slurm_resilience.plain import plain

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SCALES = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
SHORTEST_S, LONGEST_S = 1e-3, 100 * 365 * 86400.0
LEAST, MOST = 1e-6, 1e15
"""Of anything that is measured here: less or more is a slip of the keyboard."""
FEWEST_PARAMETERS = 1000
"""Fewer are no model: a unit was forgotten."""
MOST_COUNTED = 999_999
DAY_S = 86400.0
SHOWN = 40
"""Characters of a refused value."""
_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"


def refused(text: str, wanted: str) -> argparse.ArgumentTypeError:
    """What to raise for *text*, where *wanted* is meant."""
    return argparse.ArgumentTypeError(f"{plain(text, most=SHOWN)}: {wanted}")


def parameters(text: str) -> float:
    """How many parameters a model has."""
    number = _number(text[:-1], SCALES[text[-1]]) if text[-1:] in SCALES else _number(text)
    if 1 <= number < FEWEST_PARAMETERS:
        raise refused(text, f"that few parameters have no model; {number:g}B is meant?")
    if not FEWEST_PARAMETERS <= number <= MOST:
        raise refused(text, "a number as 7e9, 7B or 350M")
    return number


def duration(text: str) -> float:
    """Seconds, from a time with its unit."""
    seconds = _number(text[:-1], UNITS_S[text[-1]]) if text[-1:] in UNITS_S else math.nan
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise refused(text, "a time with its unit, as 90s, 5m, 8h or 2d")
    return seconds


def positive(text: str) -> float:
    """A number of more than 0."""
    number = _number(text)
    if not LEAST <= number <= MOST:
        raise refused(text, f"a number from {LEAST:g} to {MOST:g}")
    return number


def share(text: str) -> float:
    """A share of a whole."""
    number = _number(text)
    if not 0 <= number <= 1:
        raise refused(text, "a share from 0 to 1")
    return number


def count(text: str) -> int:
    """A whole number."""
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < 1:
        raise refused(text, f"a whole number from 1 to {MOST_COUNTED}")
    return int(text)


def seconds_of_a_day(text: str) -> float:
    """Seconds, as a bare number, of less than a day."""
    number = _number(text)
    if not SHORTEST_S <= number < DAY_S:
        raise refused(text, "seconds, more than 0 and less than a day")
    return number


def path(text: str) -> Path:
    """A path; the empty one, as of a variable that is not set, would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name; say which file or folder")
    return Path(text)


def _number(text: str, scale: float = 1) -> float:
    """A decimal number times *scale*, NaN where *text* is none; `float` takes more."""
    return float(text) * scale if re.fullmatch(_NUMBER, text) else math.nan
