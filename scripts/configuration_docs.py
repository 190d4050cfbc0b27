#!/usr/bin/env python3
"""Print docs/configuration.md from the settings and their docstrings."""

import ast
import inspect
import itertools
import sys
from collections.abc import Iterator

import msgspec

from slurm_resilience import config

INTRODUCTION = """\
# Configuration

One YAML file, `/etc/slurm-resilience/config.yaml`, the same on every node. Every key is optional. An
unknown key or a wrong type is refused, in one line that names it; hooks then say so and let jobs run.
Root reads it only where root alone can write it. A user's own file, named by
`SLURM_RESILIENCE_CONFIG`, takes its place for `slurm-resilience run` and for a user's own controller.

Keys ending in `_s` are seconds. This page is written by `scripts/configuration_docs.py`.
"""


def main() -> None:
    print(INTRODUCTION)
    for section in msgspec.structs.fields(config.Config):
        kind = type(section.default)
        print(f"## `{section.name}`\n")
        print(f"{first_line(inspect.getdoc(kind))}\n")
        print("| key | default | meaning |\n|---|---|---|")
        for row in rows(kind):
            print(row)
        print()
    print("`node.checks` takes the names in [checks.md](checks.md).")


def rows(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """A row a field, those of nested settings after their own."""
    told = docstrings(kind)
    for field in msgspec.structs.fields(kind):
        default = (
            field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        )
        if isinstance(default, msgspec.Struct):
            yield from rows(type(default), f"{prefix}{field.name}.")
        else:
            shown = msgspec.json.encode(default).decode()
            yield f"| `{prefix}{field.name}` | `{shown}` | {told.get(field.name, '')} |"


def docstrings(kind: type) -> dict[str, str]:
    """The docstring under each field, on one line."""
    tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    body = next(
        node.body
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    return {
        field.target.id: " ".join(text.value.value.split()).replace("|", "\\|")
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0]


if __name__ == "__main__":
    main()
