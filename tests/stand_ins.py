"""Stand-ins for what a node's tools and drives are, for the probes that ask them."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.node import probing

PATIENCE_S = 30.0

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may ask a drive")


class Tools:
    """A folder with the commands that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, says: str = "", *, status: int = 0, script: str = "") -> None:
        """*says*: on standard output; *script*: shell, before it."""
        said = self.folder / f"{name}.said"
        said.write_text(says)
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\ncat {said}\nexit {status}\n")
        path.chmod(0o755)

    def ask(
        self,
        probe: Callable[..., object],
        *,
        timeout_s: float = PATIENCE_S,
        **arguments: object,
    ) -> Any:  # noqa: ANN401 - as the probe answers
        """The probe's answer; RuntimeError with what it says where it has none."""
        deadline = time.monotonic() + timeout_s
        child = probing.start(probe, deadline=deadline, tools=[str(self.folder)], **arguments)
        answers = probing.gather({"it": child})
        if answers.hung:
            raise TimeoutError
        values, unread = answers.read()
        if unread:
            raise RuntimeError(unread["it"])
        return values["it"]


def nvme_drive(root: Path, name: str, *, transport: str = "pcie", state: str = "live") -> None:
    folder = root / "class/nvme" / name
    folder.mkdir(parents=True)
    (folder / "transport").write_text(f"{transport}\n")
    (folder / "state").write_text(f"{state}\n")


def scsi_drive(root: Path, name: str, *, removable: int = 0) -> None:
    folder = root / "block" / name
    folder.mkdir(parents=True)
    (folder / "removable").write_text(f"{removable}\n")
    (folder / "device").mkdir()
    (folder / "device" / "state").write_text("running\n")
