"""
One YAML file -> frozen settings; unknown keys and wrong types are refused.

Each part keeps its own settings beside its rules (`<part>/settings.py`); this module reads the
file and puts them together. `paths` and `slurm` are everybody's.
"""

import os
import stat
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from slurm_resilience import places
from slurm_resilience.errors import ConfigError, UntrustedFileError
from slurm_resilience.files import read_bounded
from slurm_resilience.node.settings import NodeSettings
from slurm_resilience.requeue.settings import RequeueSettings
from slurm_resilience.settings import Paths, SlurmSettings
from slurm_resilience.watch.settings import WatchSettings

SITE_CONFIG = Path(places.SITE_CONFIG)
VARIABLE = "SLURM_RESILIENCE_CONFIG"
MOST_BYTES = 1 << 20

_UNREADABLE = (
    yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError,
    RecursionError,
)  # fmt: skip
"""What PyYAML lets out: its own error, and what its constructors do about text like `!!int ''`."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set."""

    paths: Paths = Paths()
    slurm: SlurmSettings = SlurmSettings()
    node: NodeSettings = NodeSettings()
    watch: WatchSettings = WatchSettings()
    requeue: RequeueSettings = RequeueSettings()

    def at(self, node: str) -> "Config":
        """The settings of one node, by the name that Slurm has for it."""
        return msgspec.structs.replace(self, node=self.node.at(node))


def load(path: Path | None = None) -> Config:
    """
    The settings of *path*; else of the file that SLURM_RESILIENCE_CONFIG names; else of
    /etc/slurm-resilience/config.yaml where it exists; else the defaults.

    Raises `ConfigError`, one line that names the file and the key. Root reads only files that
    root alone can write, and never one that the environment names.
    """
    named = path or (None if os.geteuid() == 0 else _from_environment())
    if named is None and not SITE_CONFIG.exists():
        return Config()
    chosen = named or SITE_CONFIG
    settings = parse(_read(chosen), chosen)
    bin_dir = settings.slurm.bin_dir
    if bin_dir and not os.access(f"{bin_dir}/scontrol", os.X_OK):
        raise ConfigError(f"{chosen}: slurm.bin_dir: no scontrol in {bin_dir}")
    if _is_in_the_way(settings.paths.state):
        raise ConfigError(f"{chosen}: paths.state: {settings.paths.state} is no folder")
    return settings


def _is_in_the_way(path: str) -> bool:
    """Whether something else than a folder is there, or on the way there."""
    try:
        return not stat.S_ISDIR(Path(path).stat().st_mode)
    except NotADirectoryError:
        return True
    except OSError:  # not there yet, or not for this user to see
        return False


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML would take the last."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - as PyYAML has it
    ) -> dict[Hashable, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            name = key.tag, str(key.value)
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value} stands there twice", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep)


def parse(text: bytes, path: Path) -> Config:
    """Settings from YAML text; *path* is only for messages."""
    try:
        # Its class is a SafeLoader.
        document = yaml.load(text, _Loader)  # noqa: S506
    except _UNREADABLE as error:
        where = " ".join(str(error).split())
        raise ConfigError(f"{path}: not YAML: {where}") from error
    if document is None:
        return Config()
    try:
        return msgspec.convert(document, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error


def to_yaml(document: dict[str, Any]) -> str:
    """Plain values as `parse` reads them, in their order."""
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text


def _from_environment() -> Path | None:
    value = os.environ.get(VARIABLE)
    return Path(value) if value else None


def root_alone_writes(status: os.stat_result) -> bool:
    """Whether nobody but root can write to a file or folder."""
    others = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid != 0 else 0)
    return status.st_uid == 0 and not status.st_mode & others


def root_alone_names(status: os.stat_result) -> bool:
    """Whether nobody but root can put another file under a name of root's in this folder."""
    # Where the sticky bit is set, others can add names and not take root's away.
    return root_alone_writes(status) or (
        status.st_uid == 0 and bool(status.st_mode & stat.S_ISVTX)
    )


def folders(path: Path) -> Iterator[Path]:
    """Every folder that decides what *path* is, those of links on the way included."""
    at = path
    while True:
        folder = at.parent.resolve()
        yield from (folder, *folder.parents)
        at = folder / at.name
        if not at.is_symlink():
            return
        at = folder / at.readlink()


def _read(path: Path) -> bytes:
    try:
        # Followed once, here: administrators do link their configuration.
        real = path.resolve(strict=True)
        status = real.stat()
        if os.geteuid() == 0:
            if not root_alone_writes(status):
                raise ConfigError(
                    f"{path}: not root's alone to write; chown root and chmod go-w it"
                )
            for folder in folders(path):
                if not root_alone_names(folder.stat()):
                    raise ConfigError(
                        f"{path}: others can put another file in its place; chown root and"
                        f" chmod go-w {folder}"
                    )
        return read_bounded(real, most_bytes=MOST_BYTES)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file") from error
    except (OSError, RuntimeError, UntrustedFileError) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
