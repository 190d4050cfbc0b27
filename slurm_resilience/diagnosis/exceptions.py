"""Exceptions that a program raised, told from those that the world forced on it."""

import re
from collections.abc import Sequence

from slurm_resilience.diagnosis.facts import Said
from slurm_resilience.diagnosis.lines import unprefixed
from slurm_resilience.diagnosis.moments import order
from slurm_resilience.diagnosis.rules import MISUSE, MISUSED, STATUS, row_of
from slurm_resilience.diagnosis.traceback import EXCEPTION, Raised, tracebacks

USER_EXCEPTIONS = frozenset({
    "ArithmeticError", "AssertionError", "AttributeError", "FileNotFoundError", "ImportError",
    "IndentationError", "IndexError", "IsADirectoryError", "KeyError", "LookupError",
    "ModuleNotFoundError", "NameError", "NotADirectoryError", "NotImplementedError",
    "PermissionError", "RecursionError", "SyntaxError", "TypeError", "UnboundLocalError",
    "UnicodeDecodeError", "UsageError", "ConfigError", "ValueError", "ZeroDivisionError",
    # Lightning, pydantic and msgspec, Hydra, OmegaConf, Pillow
    "MisconfigurationException", "ValidationError", "ConfigCompositionException", "MissingConfigException",
    "ConfigAttributeError", "ConfigKeyError", "MissingMandatoryValue", "UnidentifiedImageError",
})  # fmt: skip
"""Deterministic enough that the next attempt would end the same way."""
LAUNCHERS = frozenset(
    {"ChildFailedError", "KeyboardInterrupt", "SignalException", "CalledProcessError"}
)
"""What a launcher raises for its children."""
SHAPES = re.compile(
    r"shapes? .*cannot be multiplied|size mismatch|must match the size|shape '\["
    r"|Expected all tensors to be on the same device|expected scalar type|does not require grad"
    r"|Expected to have finished reduction in the prior iteration|Sizes of tensors must match"
    r"|stack expects each tensor to be equal size|type \(\S+\) should be the same"
    r"|backward through the graph a second time|modified by an inplace operation"
    r"|to have the same (?:dtype|number of elements)|expected input\[.* to have \d+ channels"
    r"|requires grad is being used in an in-place operation|must be equal to input_size"
    r"|Parent directory \S+ does not exist"
)
"""torch raises plain RuntimeError for these."""


def is_user_error(raised: Raised) -> bool:
    """Whether *raised* is the program's own, and would come again."""
    if raised.name in LAUNCHERS or row_of(raised.line) is not None:
        return False
    return (
        raised.by_user
        or raised.name in USER_EXCEPTIONS
        or SHAPES.search(raised.line) is not None
    )


def reason_of(raised: Raised) -> str:
    """One line for people."""
    where = f" at {raised.frame}" if raised.frame else ""
    return f"the program raised {raised.line}{where}"


def user_error(said: Sequence[Said]) -> tuple[Said, str] | None:
    """
    The first line that an exception of the program's own left, and what to say of it; where no
    traceback is left, an exception's bare line.
    """
    ordered = sorted(
        (one for one in said if not one.survived),
        key=order,
    )
    bare = [EXCEPTION.match(unprefixed(one.text)) for one in ordered]
    for one, line in zip(ordered, bare, strict=True):
        found = list(tracebacks([*one.before, one.text])) if one.before and line else []
        if found and found[-1].line.strip() in one.text and is_user_error(found[-1]):
            return one, reason_of(found[-1])
    for one, line in zip(ordered, bare, strict=True):
        if line and (line["text"] or "." in line["name"]):
            raised = Raised(line["name"].rpartition(".")[2], line[0], None, by_user=False)
            if is_user_error(raised):
                return one, reason_of(raised)
    return None


def misused(said: Sequence[Said]) -> Said | None:
    """What a program says that was started with a wrong command line, where it ended so."""
    nodes = {one.node for one in said if ended_with(one.text, MISUSE)}
    return next(
        (one for one in said if one.node in nodes and _MISUSED.search(unprefixed(one.text))),
        None,
    )


def ended_with(line: str, *statuses: int) -> bool:
    """Whether *line* tells that a command ended with one of *statuses*."""
    return any(int(found[1]) in statuses for found in STATUS.finditer(line))


_MISUSED = re.compile(MISUSED.pattern)
KEPT = re.compile(rf"{STATUS.pattern}|: error: |: can't open file |^Error: ")
"""Lines that `misused` needs."""
