"""The import contract: who may import what, read from the code itself."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "slurm_resilience"
MODULES = sorted(PACKAGE.rglob("*.py"))

PURE_VALUES = {
    "slurm_resilience.comment",
    "slurm_resilience.errors",
    "slurm_resilience.incident",
    "slurm_resilience.lead",
    "slurm_resilience.settings",
    "slurm_resilience.slurm.hostlist",
    "slurm_resilience.slurm.values",
}
"""Frozen values that every stage may speak of."""

PURE_TABLES = {
    "slurm_resilience.node.findings",
    "slurm_resilience.node.kernel_lines",
    "slurm_resilience.node.xid",
    "slurm_resilience.watch.torchrun",
}
"""What one part knows of the world and another may read: pure, held by `PURE_BESIDE`."""

STAGES = ("facts", "rules", "policy")

WORLD = {
    "os", "pathlib", "random", "select", "shutil", "signal", "socket", "sqlite3", "subprocess",
    "tempfile", "threading", "time",
}  # fmt: skip
"""Ways of the standard library to look at the world or to change it."""

PURE = {
    "slurm_resilience.comment",
    "slurm_resilience.diagnosis.verdict",
    "slurm_resilience.launch.incidents",
    "slurm_resilience.launch.outcome",
    "slurm_resilience.lead",
    "slurm_resilience.requeue.prose",
    "slurm_resilience.slurm.configuration",
    "slurm_resilience.slurm.hostlist",
    "slurm_resilience.slurm.states",
    "slurm_resilience.training.due",
    "slurm_resilience.training.environment",
    "slurm_resilience.watch.stacks",
}
"""Judging and deciding under other names."""

ONE_DOOR = {
    "pynvml": ("slurm_resilience.node.probes.nvml",),
    "pyslurm": ("slurm_resilience.slurm.library",),
    "sh": ("slurm_resilience.slurm.commands",),
    "yaml": ("slurm_resilience.config",),
    "filelock": ("slurm_resilience.locks",),
    "torch": ("slurm_resilience.training",),
    "lightning": ("slurm_resilience.training.lightning",),
    "transformers": ("slurm_resilience.training.huggingface",),
    "fsspec": ("slurm_resilience.checkpoint_files.store",),
}
"""Where a foreign library may be imported: that module, or modules of that package."""


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, *, at_import_only: bool = False) -> Iterator[str]:
    """Dotted names that *path* imports; only those paid for at import time if asked."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    deferred = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if at_import_only and id(node) in deferred:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def resolved(name: str) -> str:
    """The module behind an imported name: `a.b.C` is module `a.b` where C is not a module."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    if path.with_suffix(".py").exists() or (path / "__init__.py").exists():
        return name
    return name.rpartition(".")[0]


def assert_harmless(name: str, me: str) -> None:
    library = name.partition(".")[0]
    assert library in {*sys.stdlib_module_names, "msgspec"} - WORLD, f"{me} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_foreign_library_is_imported_through_its_one_door(path: Path) -> None:
    """A library's quirks stay in the module that owns it."""
    me = name_of(path)

    for name in imports(path):
        doors = ONE_DOOR.get(name.partition(".")[0])
        assert doors is None or any(
            me == door or me.startswith(f"{door}.") for door in doors
        ), f"{me} imports {name}; only {doors} may"


def stage_of(name: str) -> tuple[str, str]:
    """
    The part that a module belongs to and its stage there, ("", "") for none.

    A stage is a module or, where it has grown, a package of that name.
    """
    words = name.split(".")
    for place, word in enumerate(words):
        if word in STAGES:
            return ".".join(words[:place]), word
    return "", ""


@pytest.mark.parametrize(
    "path", [path for path in MODULES if stage_of(name_of(path))[1]], ids=name_of
)
def test_facts_rules_and_policy_are_pure(path: Path) -> None:
    """They import the standard library, msgspec, plain values, and each other in that order."""
    me = name_of(path)
    part, stage = stage_of(me)

    for name in imports(path):
        if not name.startswith("slurm_resilience"):
            assert_harmless(name, me)
            continue
        module = resolved(name)
        theirs, other = stage_of(module)
        earlier = theirs == part and other and STAGES.index(other) <= STAGES.index(stage)
        shared = PURE_VALUES | PURE_TABLES
        assert earlier or stands_beside(part, module) or module in shared, (
            f"{me} imports {module}"
        )


PURE_BESIDE: dict[str, tuple[str, ...]] = {
    "slurm_resilience.doctor": ("findings",),
    "slurm_resilience.lint": (
        "asked", "expansion", "findings", "fix", "launches", "nccl", "options", "quoting", "shell",
        "view", "words",
    ),
    "slurm_resilience.diagnosis": ("exceptions", "findings", "hearsay", "lines", "moments", "places", "record", "suspects", "traceback"),
    "slurm_resilience.planning": ("findings",),
    "slurm_resilience.requeue": ("mark",),
    "slurm_resilience.node": (
        "checks", "decoding", "explanation", "findings", "kernel_lines", "learning", "trending", "xid",
    ),
    "slurm_resilience.watch": ("torchrun",),
}  # fmt: skip
"""Tables and judges that belong to a part's stages: modules or packages."""


def stands_beside(part: str, module: str) -> bool:
    names = (*PURE_BESIDE.get(part, ()), "settings")
    return any(
        module == f"{part}.{name}" or module.startswith(f"{part}.{name}.") for name in names
    )


BESIDE = [
    (part, path)
    for part in PURE_BESIDE
    for path in MODULES
    if stands_beside(part, name_of(path))
]


@pytest.mark.parametrize(
    ("part", "path"),
    BESIDE,
    ids=lambda value: name_of(value) if isinstance(value, Path) else value,
)
def test_what_stands_beside_them_is_pure_too(part: str, path: Path) -> None:
    """A table or a group of rules in a module of its own keeps to what the stages may import."""
    for name in imports(path):
        if not name.startswith("slurm_resilience"):
            assert_harmless(name, name_of(path))
            continue
        module = resolved(name)
        assert (
            stage_of(module)[0] == part
            or stands_beside(part, module)
            or module in PURE_VALUES | PURE_TABLES
        ), module


@pytest.mark.parametrize(
    "path", [path for path in MODULES if name_of(path) in PURE], ids=name_of
)
def test_other_judges_let_no_world_in(path: Path) -> None:
    """What judges or decides under another name imports only what is pure itself."""
    for name in imports(path):
        module = resolved(name)
        if not name.startswith("slurm_resilience"):
            assert_harmless(name, name_of(path))
        else:
            pure = {*PURE, *PURE_VALUES, "slurm_resilience.requeue.mark"}
            beside = any(stands_beside(part, module) for part in PURE_BESIDE)
            assert module in pure or stage_of(module)[1] or beside, module


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_imports_the_command_line(path: Path) -> None:
    """The command line is an edge: it knows the parts, they do not know it."""
    me = name_of(path)
    if me.startswith("slurm_resilience.cli") or me == "slurm_resilience.__main__":
        return

    assert not [name for name in imports(path) if name.startswith("slurm_resilience.cli")]


def test_the_hooks_start_light() -> None:
    """What the prolog imports at start contains no torch, pyslurm, sh or yaml."""
    seen: set[str] = set()
    waiting = ["slurm_resilience.node.hooks"]
    while waiting:
        name = waiting.pop()
        path = PACKAGE.parent.joinpath(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for imported in imports(file, at_import_only=True):
            module = resolved(imported)
            if module not in seen:
                seen.add(module)
                if module.startswith("slurm_resilience"):
                    waiting.append(module)

    assert not {name.partition(".")[0] for name in seen} & {"torch", "pyslurm", "sh", "yaml"}
