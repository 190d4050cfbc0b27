"""Rules about where checkpoints go."""

import re
from collections.abc import Iterator
from posixpath import normpath

from slurm_resilience.lint.findings import Finding
from slurm_resilience.lint.rules.rule import Rule
from slurm_resilience.lint.view import View

SAVE_OPTIONS = (
    "save", "save-dir", "save-path", "checkpoint-dir", "checkpoint-path", "checkpoints-dir",
    "checkpoint-folder", "checkpoints", "ckpt-dir", "ckpt-path", "default-root-dir",
)  # fmt: skip
OUTPUT_OPTIONS = ("output-dir",)
"""Of Hugging Face's Trainer and its kin; where nothing else says where saves go, they go there."""
DATA_OPTIONS = (
    "data-path", "data-dir", "data-root", "data", "dataset-path", "dataset-dir", "train-data",
    "train-data-path",
)  # fmt: skip
_SAVE_VARIABLE = re.compile(r"(?:\w*_)?(?:CHECKPOINT|CKPT|SAVE)S?_?(?:DIR|PATH|FOLDER|ROOT)")
_DATA_VARIABLE = re.compile(r"(?:\w*_)?DATA(?:SET)?S?_?(?:DIR|PATH|FOLDER|ROOT)")
_NODE_LOCAL = re.compile(
    r"(?:/tmp|/var/tmp|/dev/shm|/local_?scratch|\$\{?(?:SLURM_)?TMP(?:DIR)?\}?)(?=/|$)"
)
COPIES = frozenset({"cp", "rsync", "mv", "tar", "rclone", "aws", "gsutil", "sbcast", "azcopy"})


def checkpoint_on_node(view: View) -> Iterator[Finding]:
    """Not where something copies it away afterwards."""
    for line, path in _saved(view):
        if _NODE_LOCAL.match(path) and not _is_copied(view, path):
            yield Finding(
                "checkpoint-on-node",
                line,
                f"checkpoints go to {path}, which is one node's own",
                "name a directory on a file system that all nodes share",
            )
            return


def checkpoint_with_data(view: View) -> Iterator[Finding]:
    """Saves and the reading of data hold each other up."""
    data = [
        normpath(path)
        for _, path in _named(view, DATA_OPTIONS, _DATA_VARIABLE)
        # A file system's own root, or `$SCRATCH` alone, holds everything.
        if path.strip("/").count("/")
    ]
    for line, path in _saved(view):
        above = next((one for one in data if normpath(path).startswith(f"{one}/")), None)
        if above is not None:
            yield Finding(
                "checkpoint-with-data",
                line,
                f"checkpoints go to {path}, within the training data's {above}",
                "give them a disk of their own",
            )
            return


def _saved(view: View) -> Iterator[tuple[int, str]]:
    """Where checkpoints go."""
    told = list(_named(view, SAVE_OPTIONS, _SAVE_VARIABLE))
    yield from told or _named(view, OUTPUT_OPTIONS, _SAVE_VARIABLE)


def _named(
    view: View, options: tuple[str, ...], variable: "re.Pattern[str]"
) -> Iterator[tuple[int, str]]:
    """Paths that the training is given under these names, with their lines."""
    for launch in view.training:
        value = launch.value(*options)
        if value and "/" in value and "\n" not in value:
            yield launch.line, value
    if view.training:
        for one in view.script.assignments:
            if variable.fullmatch(one.name) and "/" in one.value and "\n" not in one.value:
                yield one.line, one.value


def _is_copied(view: View, path: str) -> bool:
    start = path.removeprefix("/").partition("/")[0]
    return any(
        command.name in COPIES and any(start in word for word in command.words[1:])
        for command in view.script.commands
    )


RULES = (
    Rule(
        "checkpoint-on-node", checkpoint_on_node,
        "the next attempt may run on other nodes: what lies in one node's own folder is not found",
        "a shared file system",
    ),
    Rule(
        "checkpoint-with-data", checkpoint_with_data,
        "a save takes the bandwidth that the data loader needs, and a full disk stops both",
        "a disk of its own for checkpoints",
    ),
)  # fmt: skip
