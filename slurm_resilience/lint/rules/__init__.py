"""All rules. Pure: a script in, findings out."""

from collections.abc import Iterator

from msgspec.structs import replace

from slurm_resilience.lint.facts import Script
from slurm_resilience.lint.findings import Finding
from slurm_resilience.lint.rules import layout, notice, paths, submission, variables
from slurm_resilience.lint.rules.rule import Rule
from slurm_resilience.lint.view import View, view

MOST_UNKNOWN = 20
"""Names that silence nothing, of one script: more are a slip in one place."""


def no_directives(view: View) -> Iterator[Finding]:
    """What the job asks for stands on somebody's command line."""
    if view.training and view.script.is_shell and not view.script.last_directive:
        yield Finding(
            "no-directives",
            0,
            "no #SBATCH line: what the job asks for cannot be judged",
            "put the options of sbatch into the file",
        )


def unknown_ignore(view: View) -> Iterator[Finding]:
    """A slip in a rule's name must not go unnoticed."""
    told: set[str] = set()
    for name, line in view.script.silenced:
        if name not in IDS and name not in told and len(told) < MOST_UNKNOWN:
            told.add(name)
            yield Finding(
                "unknown-ignore", line, f"ignore={name} names no rule", "see docs/lint.md"
            )


RULES = (
    *submission.RULES,
    *notice.RULES,
    *layout.RULES,
    *variables.RULES,
    *paths.RULES,
    Rule(
        "no-directives", no_directives,
        "options on the command line are not there at the next submission, and not for lint to see",
        "`#SBATCH` lines",
    ),
    Rule(
        "unknown-ignore", unknown_ignore,
        "a comment that silences nothing hides that a finding stands", "the rule's id",
    ),
)  # fmt: skip
BY_ID = {rule.id: rule for rule in RULES}
IDS = frozenset(BY_ID)


def judge(script: Script, *, save_s: float | None = None) -> list[Finding]:
    """
    Everything that is wrong with *script* and not silenced in it, by line; scripts that it hands
    to sbatch included.

    *save_s*: what the longest save took, where that is known.
    """
    silenced = {name for name, _ in script.silenced}
    findings = _all(script, save_s)
    kept = [finding for finding in findings if finding.rule not in silenced]
    return sorted(kept, key=lambda finding: finding.line)


def _all(script: Script, save_s: float | None) -> Iterator[Finding]:
    seen = view(script, save_s=save_s)
    for rule in RULES:
        yield from rule.judge(seen)
    for inner in script.inner:
        for finding in _all(inner.script, save_s):
            # The outer shell has put in the values, and its own comments are judged there.
            if finding.rule not in {"variable-in-directive", "unknown-ignore"}:
                at = inner.line
                if inner.offset is not None and finding.line:
                    at = inner.offset + finding.line
                yield replace(finding, line=at, edit=None)
