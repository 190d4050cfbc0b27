"""With the real libraries: a training stopped and resumed ends as one that was not."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.cli import main
from tests.training.scripts import PROGRAMS, ended


def needs(*libraries: str) -> None:
    """Skip the test where a library is not there; they are the user's, and large."""
    for name in libraries:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install {name}")


def trained(program: str, folder: Path, *options: object) -> Any:  # noqa: ANN401 - JSON
    """What *program* prints at its end."""
    return ended(program, folder, *options)[0]


@pytest.mark.parametrize(
    ("until", "workers"), [(7, 2), (10, 0)], ids=["amid an epoch", "at its end"]
)
def test_a_stateful_data_loader_and_a_scaler_go_on(
    tmp_path: Path, workers: int, until: int
) -> None:
    """The same batches, the random numbers that are drawn with each, the scale that was found."""
    needs("torchdata")
    program = "loader_training.py"
    undisturbed, scale = trained(program, tmp_path / "one", 15, workers)

    before, _ = trained(program, tmp_path / "two", until, workers)
    after, scale_after = trained(program, tmp_path / "two", 15, workers)

    assert len(before) == until
    assert before + after == undisturbed
    assert scale_after == scale > 1024.0


@pytest.mark.parametrize(
    ("loader", "stops"), [("stateful", [1, 2]), ("plain", [4, 9])],
    ids=["amid an epoch", "at its end"],
)  # fmt: skip
def test_a_lightning_training_goes_on_bit_for_bit(
    tmp_path: Path, loader: str, stops: list[int]
) -> None:
    """Model, optimizer, scheduler, loops, data and random numbers."""
    needs("lightning", "torchdata")
    program = "lightning_training.py"
    undisturbed = trained(program, tmp_path / "one", loader)
    seen = []
    for step in stops:
        stopped, steps, data, _ = trained(program, tmp_path / "two", loader, step)
        assert (stopped, steps) == (True, step + 1)
        seen += data

    stopped, steps, data, weights = trained(program, tmp_path / "two", loader)

    assert [stopped, steps, seen + data, weights] == undisturbed


def test_a_hugging_face_training_goes_on_bit_for_bit(tmp_path: Path) -> None:
    """Stopped amid an epoch and at its end: 37 samples make 5 steps of 10 batches."""
    needs("transformers", "accelerate")
    program = "huggingface_training.py"
    undisturbed = trained(program, tmp_path / "one")
    seen = []
    for batches, steps_done in ((6, 3), (4, 5), (14, 12)):
        stopped, steps, data, _ = trained(program, tmp_path / "two", batches)
        assert (stopped, steps) == (True, steps_done)
        seen += data

    stopped, steps, data, weights = trained(program, tmp_path / "two")

    assert [stopped, steps, seen + data, weights] == undisturbed


def test_a_hugging_face_training_goes_on_from_a_copy(tmp_path: Path) -> None:
    """The directory was lost; the first attempt after that goes on."""
    needs("transformers", "accelerate", "fsspec")
    program, folder, url = "huggingface_training.py", tmp_path / "one", f"file://{tmp_path}/u"
    trained(program, folder, 6)
    assert main(["checkpoint", "copy", str(folder / "c"), url]) == 0
    shutil.rmtree(folder / "c")

    stopped, steps, data, _ = trained(program, folder, 4, url)

    assert (stopped, steps) == (True, 5)
    assert len(data) == 4


def test_a_hugging_face_training_goes_back_behind_what_is_damaged(tmp_path: Path) -> None:
    """The Trainer is told to stand where the checkpoint stands that is restored."""
    needs("transformers", "accelerate")
    program, folder = "huggingface_training.py", tmp_path / "one"
    trained(program, folder, 6)
    trained(program, folder, 4)
    newest = max((folder / "c").glob("step-*")) / "rank-00000.tensors"
    newest.write_bytes(bytes(newest.stat().st_size))

    stopped, steps, _, _ = trained(program, folder, 2)

    assert (stopped, steps) == (True, 4)


COUNTING = """
import runpy, sys
reads = open(sys.argv.pop(1), "w", buffering=1)
sys.argv[0] = sys.argv.pop(1)
def look(event, arguments):
    if event == "open" and str(arguments[0]).endswith("rank-00000.tensors"):
        print(arguments[0], file=reads)
sys.addaudithook(look)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_hugging_face_training_verifies_what_it_goes_on_from_once(tmp_path: Path) -> None:
    """Although the Trainer asks where it stands before there is anything to restore into."""
    needs("transformers", "accelerate")
    program, folder, reads = "huggingface_training.py", tmp_path / "one", tmp_path / "reads"
    trained(program, folder, 6)
    newest = max((folder / "c").glob("step-*"))

    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COUNTING, reads, PROGRAMS / program, folder, "2"],
        capture_output=True, timeout=180, check=True,
    )  # fmt: skip

    opened = [line for line in reads.read_text().splitlines() if newest.name in line]
    assert len(opened) == 1 + len(["model", "optimizer", "random numbers"])


def test_a_hugging_face_training_that_does_not_ask_where_it_stands_is_refused(
    tmp_path: Path,
) -> None:
    """Else it would do its first steps again on what it has learnt."""
    needs("transformers", "accelerate")
    trained("huggingface_training.py", tmp_path / "two", 6)
    program = (PROGRAMS / "huggingface_training.py").read_text()
    careless = tmp_path / "careless.py"
    careless.write_text(
        program.replace("resume_from_checkpoint=resilience.resume_from(trainer)", "")
    )

    ended = subprocess.run(
        [sys.executable, "-W", "ignore", careless, tmp_path / "two"],
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip

    assert ended.returncode != 0
    assert "call trainer.train(resume_from_checkpoint=" in ended.stderr.splitlines()[-1]
