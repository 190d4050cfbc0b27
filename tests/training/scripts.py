"""Training scripts of other libraries, each a process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"


def ended(program: str, folder: Path, *options: object) -> tuple[Any, str]:
    """What *program* prints at its end, and what it logs."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", PROGRAMS / program, folder, *map(str, options)],
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr
