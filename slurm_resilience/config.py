"""
One YAML file -> frozen settings; unknown keys and wrong types are refused.

Each part keeps its own settings beside its rules (`<part>/settings.py`); this module reads the
file and puts them together. `paths` and `slurm` are everybody's.
"""

import os
import stat
from pathlib import Path

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


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set."""

    paths: Paths = Paths()
    slurm: SlurmSettings = SlurmSettings()
    node: NodeSettings = NodeSettings()
    watch: WatchSettings = WatchSettings()
    requeue: RequeueSettings = RequeueSettings()


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
    return parse(_read(chosen), chosen)


def parse(text: bytes, path: Path) -> Config:
    """Settings from YAML text; *path* is only for messages."""
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = " ".join(str(error).split())
        raise ConfigError(f"{path}: not YAML: {where}") from error
    if document is None:
        return Config()
    try:
        return msgspec.convert(document, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error


def _from_environment() -> Path | None:
    value = os.environ.get(VARIABLE)
    return Path(value) if value else None


def _root_alone_writes(status: os.stat_result) -> bool:
    others = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid != 0 else 0)
    return status.st_uid == 0 and not status.st_mode & others


def _read(path: Path) -> bytes:
    try:
        # Followed once, here: administrators do link their configuration.
        real = path.resolve(strict=True)
        status = real.stat()
        if os.geteuid() == 0 and not _root_alone_writes(status):
            raise ConfigError(
                f"{path}: not root's alone to write; chown root and chmod go-w it"
            )
        return read_bounded(real, most_bytes=MOST_BYTES)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file") from error
    except (OSError, RuntimeError, UntrustedFileError) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
