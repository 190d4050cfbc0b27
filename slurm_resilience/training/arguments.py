"""What a script gives: taken as what it means; of `Checkpoints`, refused in one line that names the argument."""

import math
import operator
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import SupportsFloat, SupportsIndex

from slurm_resilience.errors import UsageError
from slurm_resilience.plain import plain

MOST_SHOWN = 80
MOST = 1 << 63
"""The heartbeat has eight bytes for a step."""
# A Path has made one slash of the two.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]+:/")


def count(name: str, value: object) -> int:
    """A whole number of 1 or more; numpy's and torch's are such as well."""
    number = whole_number(value)
    if number is None or number < 1:
        raise refused(name, value, "a whole number, 1 or more")
    return number


def whole_number(value: object) -> int | None:
    """
    *value* as a number of Python's own, 0 or more: numpy's and torch's are whole as well, and no
    manifest takes them. None where it is none.
    """
    number = -1
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        with suppress(TypeError, RuntimeError, ValueError):  # a tensor of several elements
            number = int(operator.index(value))
    return number if 0 <= number < MOST else None


def minutes(name: str, value: object) -> float:
    """A number of more than 0, and finite."""
    number = math.nan
    is_number = isinstance(value, SupportsFloat | SupportsIndex)  # float() takes texts as well
    if is_number and not isinstance(value, bool):
        with suppress(TypeError, RuntimeError, ValueError, OverflowError):
            number = float(value)  # type: ignore[arg-type]
    if not 0 < number < math.inf:
        raise refused(name, value, "a number of minutes, more than 0")
    return number


def flag(name: str, value: object) -> bool:
    """True or False, and no text that says so."""
    if not isinstance(value, bool):
        raise refused(name, value, "True or False")
    return value


def place(name: str, value: object, *, instead_of_url: str) -> Path:
    """
    A path on this machine, as it is from here on: without `~`, and the same after `os.chdir`.

    *instead_of_url*: what to do where a URL was meant.
    """
    if not isinstance(value, str | os.PathLike):
        raise refused(name, value, "a path")
    text = os.fsdecode(value)
    if _URL.match(text):
        raise refused(name, value, f"a path, and no URL; {instead_of_url}")
    if not text or "\0" in text:
        raise refused(name, value, "a path; this is none")
    expanded = os.path.expanduser(text)  # noqa: PTH111 - Path's raises for a user who is not there
    if expanded.startswith("~"):
        raise refused(name, value, "a path; there is no such home directory")
    try:
        return Path(os.path.abspath(expanded))  # noqa: PTH100 - resolve() would follow links
    except FileNotFoundError as error:
        raise refused(
            name, value, "an absolute path here: the working directory is gone"
        ) from error


def refused(name: str, value: object, wanted: str) -> UsageError:
    """What to raise for *value*."""
    shown = plain(repr(value), most=MOST_SHOWN)
    return UsageError(f"Checkpoints: {name} is {shown}; it has to be {wanted}")
