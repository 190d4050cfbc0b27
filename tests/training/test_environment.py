"""What a training ran in is remembered, and what has changed is said when it goes on."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.training.environment import Environment, differences
from slurm_resilience.training.environment_probe import environment, without_secrets
from tests.training.ranks import wait_for

THEN = Environment(
    python="3.11.2",
    packages={"torch": "2.12.0", "numpy": "2.4.6", "apex": "0.1"},
    cuda="12.8",
    driver="550.54.15",
    image="sha256:aaaa",
    commit="a1b2c3",
    argv=("train.py", "--lr=0.1", "--steps", "100"),
)

CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ""),
    "what is not known now": ({"driver": None, "image": None}, ""),
    "driver": ({"driver": "560.1"}, "driver 550.54.15 -> 560.1"),
    "commit and image": (
        {"commit": "d4e5+", "image": "sha256:bbbb"},
        "commit a1b2c3 -> d4e5+; image sha256:aaaa -> sha256:bbbb",
    ),
    "a package, one more, one less": (
        {"packages": {"torch": "2.13.0", "numpy": "2.4.6", "einops": "0.8"}},
        "torch 2.12.0 -> 2.13.0; apex 0.1 -> none; einops none -> 0.8",
    ),
    "an argument": (
        {"argv": ("train.py", "--lr=0.2", "--steps", "100")},
        "arguments '--lr=0.1' -> '--lr=0.2'",
    ),
    "the order": (
        {"argv": ("train.py", "--steps", "100", "--lr=0.1")},
        "arguments in another order",
    ),
    "many": (
        {"packages": {f"p{number:02}": "1" for number in range(20)}},
        (
            "torch 2.12.0 -> none; apex 0.1 -> none; numpy 2.4.6 -> none; p00 none -> 1; "
            "p01 none -> 1; p02 none -> 1; p03 none -> 1; p04 none -> 1; and 15 more"
        ),
    ),
}


@pytest.mark.parametrize(("changes", "line"), CHANGES.values(), ids=CHANGES)
def test_one_line_says_what_differs(changes: dict[str, Any], line: str) -> None:
    """The most telling first; what is not known on one side is no difference."""
    assert differences(THEN, msgspec.structs.replace(THEN, **changes)) == line


@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        (["t.py", "--api-key=abc", "--lr=1"], ["t.py", "--api-key=***", "--lr=1"]),
        (["t.py", "--hf_token", "abc", "x"], ["t.py", "--hf_token", "***", "x"]),
        (["t.py", "--token", "--lr=1"], ["t.py", "--token", "--lr=1"]),
        (["t.py", "--tokenizer=bpe"], ["t.py", "--tokenizer=bpe"]),
        (["t.py", "--max-tokens", "512"], ["t.py", "--max-tokens", "512"]),
        (["t.py", "optim.password=x"], ["t.py", "optim.password=***"]),
    ],
    ids=["with =", "as two words", "a flag", "tokenizer", "a count", "hydra's way"],
)
def test_secrets_in_arguments_are_not_remembered(argv: list[str], kept: list[str]) -> None:
    """A checkpoint is given away more easily than a key."""
    assert list(without_secrets(argv)) == kept


def test_this_process_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages that are installed, the image that the batch script named."""
    monkeypatch.setenv("SLURM_RESILIENCE_IMAGE", "sha256:abcd")

    here = environment()

    assert here.packages["msgspec"] == msgspec.__version__
    assert here.python == ".".join(map(str, sys.version_info[:3]))
    assert here.image == "sha256:abcd"


def test_a_package_that_cannot_be_read_costs_nothing_but_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An author's name in another encoding is no reason for a training not to begin."""
    for name, author in (("odd", b"J\xfcrgen"), ("even", b"Juergen")):
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_bytes(
            b"Name: %s\nVersion: 1\nAuthor: %s\n" % (name.encode(), author)
        )
    monkeypatch.syspath_prepend(str(tmp_path))

    packages = environment().packages

    assert packages["even"] == "1"
    assert "odd" not in packages


def test_an_image_file_is_known_by_its_own_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two builds under one name differ in it; a name that cannot be read stands for itself."""
    image = tmp_path / "train.sif"
    launcher = b"#!/usr/bin/env run-singularity\n".ljust(32, b"\0")
    image.write_bytes(launcher + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + bytes(range(16)))
    monkeypatch.delenv("SLURM_RESILIENCE_IMAGE", raising=False)
    monkeypatch.setenv("APPTAINER_CONTAINER", str(image))
    known = environment().image
    image.unlink()

    assert known == f"{image} {bytes(range(16)).hex()}"
    assert environment().image == str(image)


SCRIPT = """
import logging, sys
from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.training import Checkpoints, Run
logging.basicConfig(level=logging.WARNING)
run = Run(checkpoints=Checkpoints(sys.argv[1], every_steps=1), state={"n": 1})
run.step(run.restore())
run.finish()
"""


def test_a_resumed_training_says_what_has_changed(tmp_path: Path) -> None:
    """Another commit, another argument: one line, the first time nothing."""
    repository = tmp_path / "code"
    repository.mkdir()
    script = repository / "train.py"
    script.write_text(SCRIPT)
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "train.py"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    checkpoints = str(tmp_path / "c")

    def said(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, str(script), checkpoints, *arguments],
            capture_output=True, text=True, check=True, timeout=60,
        ).stderr  # fmt: skip

    first, same = said(), said()
    script.write_text(SCRIPT + "\n")
    changed = said("--lr=0.2")

    assert "since" not in first + same
    [line] = [line for line in changed.splitlines() if "since step-000000001 was saved" in line]
    assert "commit " in line
    assert "+; arguments '' -> '--lr=0.2'" in line


def test_the_environment_lies_beside_the_records_of_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For people to look at, whatever was saved."""
    monkeypatch.setenv("SLURM_RESILIENCE_ATTEMPT", str(tmp_path))
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1})
    run.restore()
    run.close()
    path = tmp_path / "environment.json"
    wait_for(path.exists)

    left = msgspec.json.decode(path.read_bytes(), type=Environment)

    assert left.packages["torch"] == torch.__version__


def test_arguments_in_another_encoding_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A name from an old archive, an image's too: saved, kept, and a difference like any other."""
    path = tmp_path / "environment.json"
    monkeypatch.setenv("SLURM_RESILIENCE_ATTEMPT", str(tmp_path))
    monkeypatch.setenv("SLURM_RESILIENCE_IMAGE", os.fsdecode(b"caf\xe9.sif"))
    for argument in (b"caf\xe9", b"caf\xe8"):
        monkeypatch.setattr(sys, "argv", ["train.py", os.fsdecode(argument)])
        run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1})
        run.step(run.restore())
        run.finish()
        wait_for(path.exists)

    left = msgspec.json.decode(path.read_bytes(), type=Environment)

    assert left.argv[-1].startswith(r"caf\udce")
    assert left.image == r"caf\udce9.sif"
    steps = [entry.manifest.step for entry in found(tmp_path / "c") if entry.manifest]
    assert sorted(steps) == [0, 1]
    assert r"arguments 'caf\\udce9' -> 'caf\\udce8'" in caplog.text


def test_a_working_directory_that_was_deleted_costs_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script named without its path is then nowhere."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    monkeypatch.setattr(sys, "argv", ["train.py"])

    here = environment()

    assert here.commit is None
    assert here.packages["torch"] == torch.__version__
