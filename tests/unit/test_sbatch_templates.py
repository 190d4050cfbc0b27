"""The templates as a researcher gets them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

TEMPLATES = sorted((Path(__file__).parents[2] / "sbatch_templates").glob("*.sbatch"))
NEEDED = (
    "--requeue", "--open-mode=append", "--signal=B:USR2@120", "--time=",
    "--comment=slurm-resilience", "--ntasks-per-node=1",
)  # fmt: skip

pytestmark = pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)


def test_a_template_asks_slurm_for_what_it_needs(template: Path) -> None:
    """A notice to the batch shell alone, an output that is appended to, a job that may come back."""
    options = re.findall(r"^#SBATCH (\S+)$", template.read_text(), re.MULTILINE)

    assert all(any(option.startswith(need) for option in options) for need in NEEDED)


def test_a_template_is_sound_shell(template: Path) -> None:
    """bash takes it, and shellcheck where there is one."""
    subprocess.run(["bash", "-n", template], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", template], check=True)


def test_a_template_becomes_the_supervisor(template: Path, tmp_path: Path) -> None:
    """exec: the notice reaches whoever takes the shell's place; arguments arrive as they are."""
    seen = run(template, tmp_path, "train.py", "--name", "two words", tool=True)

    assert seen.stdout.splitlines() == [
        "run", "--", "torchrun", "train.py", "--name", "two words", "same process"
    ]  # fmt: skip


def test_a_template_refuses_what_cannot_work(template: Path, tmp_path: Path) -> None:
    """Without a script to run, or without the tool in PATH, one line says so."""
    nothing = run(template, tmp_path, tool=True)
    missing = run(template, tmp_path, "train.py", tool=False)

    assert nothing.returncode != 0
    assert "usage: sbatch" in nothing.stderr
    assert missing.returncode == 2
    assert missing.stderr.splitlines() == [
        "slurm-resilience is not in PATH: activate its environment in this script, or before sbatch"
    ]


def run(
    template: Path, folder: Path, *arguments: str, tool: bool
) -> "subprocess.CompletedProcess[str]":
    """The template as slurmd would start it; the tool prints what it is told."""
    program = folder / "slurm-resilience"
    if tool:
        program.write_text(
            '#!/bin/bash\nprintf "%s\\n" "$@"\n[ $$ = "$PARENT" ] && echo same process\n'
        )
        program.chmod(0o755)
    else:
        program.unlink(missing_ok=True)
    script = f'export PARENT=$$; set -- "$@"; exec bash {template} "$@"'
    return subprocess.run(
        ["bash", "-c", script, "template", *arguments],
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
