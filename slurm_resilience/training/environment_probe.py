"""Reads what a training runs in, inside its container where it has one. No answer is no reason to fail."""

import logging
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import msgspec
import torch

from slurm_resilience.files import replace
from slurm_resilience.training.beside import beside
from slurm_resilience.training.environment import Environment
from slurm_resilience.watch.heartbeat import ATTEMPT_VARIABLE

log = logging.getLogger(__name__)

NAME = "environment.json"
DRIVER = Path("/proc/driver/nvidia/version")
GIT_S = 5.0
DIGEST_VARIABLE = "SLURM_RESILIENCE_IMAGE"
"""For the batch script to set, where its container does not say which one it is."""
IMAGE_VARIABLES = (
    DIGEST_VARIABLE, "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "SLURM_CONTAINER",
    "NVIDIA_BUILD_REF", "NVIDIA_BUILD_ID",
)  # fmt: skip
"""The first that is set; the last two are NVIDIA's own images'."""
SIF_MAGIC = b"SIF_MAGIC"
SIF_HEADER = slice(32, 64)
"""Launcher (32 bytes), then magic (10), version (3), architecture (3) and the image's UUID (16)."""
PACKAGE_NAME = re.compile(r"^Name: *(\S+)", re.MULTILINE)
PACKAGE_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)
SECRET = re.compile(r"(?i)(^|[-_.])(api)?(key|token|secret|password|passwd|credentials?)$")


def environment() -> Environment:
    """The environment of this process."""
    found = dict(filter(None, map(_named, metadata.distributions())))
    return Environment(
        python=platform.python_version(),
        packages=dict(sorted(found.items())),
        cuda=torch.version.cuda,
        driver=_driver(),
        image=_image(os.environ),
        commit=_commit(sys.argv[0] if sys.argv else ""),
        argv=tuple(map(_text, without_secrets(sys.argv))),
    )


def _text(found: str) -> str:
    """*found* as UTF-8 can hold it: a byte that is none stands there as `\\udce9`."""
    return found.encode("utf-8", "backslashreplace").decode()


def _named(package: metadata.Distribution) -> tuple[str, str] | None:
    """Name and version. Not by its `metadata`: that parses pages, half a second for all of them."""
    try:
        text = package.read_text("METADATA") or package.read_text("PKG-INFO") or ""
    except (OSError, UnicodeDecodeError):
        return None
    name, version = PACKAGE_NAME.search(text), PACKAGE_VERSION.search(text)
    return (name[1], version[1]) if name and version else None


def leave(found: Environment, environ: Mapping[str, str]) -> None:
    """
    Put it among the records of this attempt, where there are any, without waiting for their disk.
    """
    directory = environ.get(ATTEMPT_VARIABLE)
    if not directory:
        return
    path = Path(directory) / NAME
    content = msgspec.json.format(msgspec.json.encode(found)) + b"\n"

    def write() -> None:
        try:
            replace(path, content)
        except OSError as error:
            log.warning("%s: %s", path, error.strerror)

    beside(write)


def without_secrets(argv: Sequence[str]) -> tuple[str, ...]:
    """*argv* with the values of options left out that are named like a secret."""
    shown: list[str] = []
    for word in argv:
        option, equals, _ = word.partition("=")
        after_name = shown and shown[-1].startswith("-") and SECRET.search(shown[-1])
        if after_name and "=" not in shown[-1] and not word.startswith("-"):
            shown.append("***")
        elif equals and SECRET.search(option):
            shown.append(f"{option}=***")
        else:
            shown.append(word)
    return tuple(shown)


def _driver() -> str | None:
    try:
        first_line = DRIVER.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return None
    version = re.search(r"\b\d+\.\d+(\.\d+)?\b", first_line)
    return version.group() if version else None


def _image(environ: Mapping[str, str]) -> str | None:
    named = next((environ[name] for name in IMAGE_VARIABLES if environ.get(name)), None)
    if named is None:
        return None
    shown = _text(named)
    if not named.endswith(".sif"):
        return shown
    try:
        with Path(named).open("rb") as file:
            header = file.read(SIF_HEADER.stop)[SIF_HEADER]
    except OSError:  # it need not be visible from inside
        return shown
    return f"{shown} {header[16:].hex()}" if header.startswith(SIF_MAGIC) else shown


def _commit(script: str) -> str | None:
    try:
        git = ["git", "-C", str(Path(script).absolute().parent)]
        commit = _said([*git, "rev-parse", "HEAD"])
        changed = _said([*git, "status", "--porcelain", "--untracked-files=no"])
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+" if changed else commit


def _said(command: list[str]) -> str:
    ended = subprocess.run(  # noqa: S603 - git, found as the user finds it
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=GIT_S,
        check=True,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    )
    return ended.stdout.decode("utf-8", "replace").strip()
