"""What callbacks and a data module keep goes on as well; with the real libraries."""

import importlib.util
from pathlib import Path

import pytest

from tests.training.scripts import ended


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
