"""What the documents say is what the product does."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.node.checks import CHECKS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def help_of(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "slurm_resilience", *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
    )
    return done.stdout


def commands() -> list[str]:
    return re.findall(r"^    (\w[\w-]*)(?: |$)", help_of(), re.MULTILINE)


@pytest.mark.parametrize("command", commands())
def test_every_command_explains_itself_and_stands_in_the_readme(command: str) -> None:
    """Nobody has to read the code to learn what a command is for."""
    told = help_of(command)

    assert len(told.splitlines()) > 3
    assert re.search(rf"`{command}\b", README), f"README does not name {command}"


def test_the_readme_names_no_command_that_is_not_there() -> None:
    """The table of commands is true."""
    table = README.partition("## Commands")[2].partition("##")[0]

    named = {
        part.split()[0]
        for row in re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
        for part in re.findall(r"`([^`]+)`", row)
    }

    assert named <= set(commands())


def test_every_check_stands_in_the_comparison() -> None:
    """Who compares finds what is looked at here, or that it was not compared."""
    told = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")

    assert not [name for name in CHECKS if f"`{name}`" not in told]


@pytest.mark.parametrize(
    "script", sorted((ROOT / "scripts").glob("*_docs.py")), ids=lambda path: path.stem
)
def test_what_a_script_documents_is_as_the_code_has_it(script: Path) -> None:
    """Settings, checks and rules come from the code; the scripts write their pages."""
    written = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout

    page = ROOT / "docs" / f"{script.stem.removesuffix('_docs')}.md"
    assert written == page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "document",
    ["README.md", "CONTRIBUTING.md", *["docs/" + p.name for p in (ROOT / "docs").glob("*.md")]],
)
def test_links_within_the_project_lead_somewhere(document: str) -> None:
    """No document points at a file that is not there."""
    path = ROOT / document

    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{document}: {target}"
