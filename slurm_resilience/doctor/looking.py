"""Look at a cluster's set-up: ask slurmctld, and look at the files on this machine."""

import glob
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from slurm_resilience import __version__
from slurm_resilience.config import (
    SITE_CONFIG,
    Config,
    folders,
    root_alone_names,
    root_alone_writes,
)
from slurm_resilience.doctor.facts import ClusterFacts, PlaceFacts, ProgramFacts
from slurm_resilience.doctor.rules import HOOKS
from slurm_resilience.node.state import switches
from slurm_resilience.slurm.door import Slurm

_SHARE = "share/slurm-resilience"
_OURS = "slurm-resilience-"


def look(slurm: Slurm, config: Config, complaint: str) -> ClusterFacts:
    """
    The facts; *complaint*: what is wrong with our own configuration.

    Raises `SlurmError` where slurmctld does not answer: without it there is nothing to judge.
    """
    settings = slurm.configuration()
    share = Path(sys.prefix) / _SHARE
    return ClusterFacts(
        package=__version__,
        commands=slurm.version(),
        settings=settings,
        programs=tuple(
            _program(setting, path)
            for setting in HOOKS
            for path in _paths(settings.get(setting, ""))
        ),
        configuration=_place(SITE_CONFIG),
        state=_place(Path(config.paths.state)),
        complaint=complaint,
        off=_switched_off(config.paths.state),
        share=str(share) if share.is_dir() else "",
        verdict_age_s=config.node.verdict_age_s,
    )


def _switched_off(state: str) -> tuple[str, ...]:
    everything = (switches.EVERYTHING,) if switches.is_all_off(state) else ()
    return everything + switches.files_off(state)


def _paths(value: str) -> Iterator[str]:
    """A setting may name several programs, and each by a pattern."""
    for path in filter(None, value.split(",")):
        matching = Path("/").glob(path.lstrip("/")) if glob.has_magic(path) else ()
        yield from sorted(str(one) for one in matching) or [path]


def _program(setting: str, path: str) -> ProgramFacts:
    real = Path(path).resolve()
    if not real.is_file():
        return ProgramFacts(setting, path, found=False)
    is_ours = real.name.startswith(_OURS) and f"/{_SHARE}/" in str(real)
    prefix = Path(str(real).partition(f"/{_SHARE}/")[0])
    python = prefix / "bin" / "python"
    return ProgramFacts(
        setting,
        path,
        hook=real.name.removeprefix(_OURS) if is_ours else "",
        executable=os.access(real, os.X_OK),
        python=not is_ours or os.access(python, os.X_OK),
        version=_version(prefix) if is_ours else "",
        loose=tuple(_loose(Path(path))),
    )


def _version(prefix: Path) -> str:
    for found in prefix.glob("lib*/python3*/site-packages/slurm_resilience-*.dist-info"):
        return found.name.removesuffix(".dist-info").rpartition("-")[2]
    return ""


def _place(path: Path) -> PlaceFacts:
    try:
        path.lstat()
    except FileNotFoundError:
        return PlaceFacts(str(path))
    except OSError as error:
        return PlaceFacts(str(path), unread=f"{error.strerror}; run doctor as root")
    unread = "" if os.access(path, os.R_OK) else "not for you to read; run doctor as root"
    return PlaceFacts(str(path), found=True, loose=tuple(_loose(path)), unread=unread)


def _loose(path: Path) -> Iterator[str]:
    """What others than root can change of a file, of where it lies, and of any link to it."""
    real = path.resolve()
    if not root_alone_writes(real.stat()):
        yield str(real)
    yield from (
        str(one) for one in dict.fromkeys(folders(path)) if not root_alone_names(one.stat())
    )
