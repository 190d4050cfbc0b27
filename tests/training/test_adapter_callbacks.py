"""What callbacks and a data module keep goes on as well; with the real libraries."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.skipif(not importlib.util.find_spec("lightning"), reason="pip install lightning")
def test_early_stopping_and_the_data_module_go_on_under_lightning(tmp_path: Path) -> None:
    """Stopped twice, it ends at the step at which it would have ended; a hook that is lost is said."""
    program = "lightning_callbacks.py"
    undisturbed, _ = ended(program, tmp_path / "one")

    first, said = ended(program, tmp_path / "two", 3)
    second, _ = ended(program, tmp_path / "two", 7)
    resumed, _ = ended(program, tmp_path / "two")

    assert undisturbed == [False, 4, 10, 10]
    assert (first[0], first[2], second[0], second[2]) == (True, 4, True, 8)
    assert resumed == undisturbed
    assert "Model.on_save_checkpoint is not called" in said
    assert said.count("on_save_checkpoint") == 1


@pytest.mark.skipif(
    not importlib.util.find_spec("transformers"), reason="pip install transformers"
)
def test_early_stopping_goes_on_under_the_trainer(tmp_path: Path) -> None:
    """Where `restore_callback_states_from_checkpoint` asks for it, it ends where it would have ended."""
    program = "huggingface_callbacks.py"
    undisturbed, _ = ended(program, tmp_path / "one")

    stopped, _ = ended(program, tmp_path / "two", 4)
    resumed, _ = ended(program, tmp_path / "two")

    assert stopped == [True, 5]
    assert resumed == undisturbed
    assert not undisturbed[0]
