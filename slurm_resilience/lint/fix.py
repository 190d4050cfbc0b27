"""The safe changes of findings, put into the text. Pure."""

from collections.abc import Sequence

from slurm_resilience.lint.facts import Script
from slurm_resilience.lint.findings import Finding, Insert, Replace, UnixLineEnds


def fixed(script: Script, findings: Sequence[Finding]) -> str:
    """The text of *script* with the edit of every finding that has one."""
    edits = [finding.edit for finding in findings if finding.edit is not None]
    lines = list(script.lines)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    for edit in edits:
        if isinstance(edit, Replace):
            old = lines[edit.line - 1]
            lines[edit.line - 1] = edit.text + old[len(old.rstrip("\r\n")) :]
    added = [f"{edit.text}{end}" for edit in edits if isinstance(edit, Insert)]
    # Behind the last directive; without any, behind the first line.
    place = script.last_directive or min(1, len(lines))
    if added and place and not lines[place - 1].endswith("\n"):
        lines[place - 1] += end
    text = "".join([*lines[:place], *added, *lines[place:]])
    if any(isinstance(edit, UnixLineEnds) for edit in edits):
        text = text.replace("\r\n", "\n")
    return text
