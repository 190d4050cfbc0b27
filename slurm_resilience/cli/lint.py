"""`lint`: an sbatch file before it costs a night."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from slurm_resilience.checkpoint_files.listing import shown
from slurm_resilience.cli import standard_input
from slurm_resilience.cli.arguments import path, seconds_of_a_day
from slurm_resilience.cli.printing import print_json
from slurm_resilience.errors import UsageError
from slurm_resilience.lint import act, facts
from slurm_resilience.lint.findings import Finding
from slurm_resilience.lint.fix import fixed
from slurm_resilience.lint.rules import BY_ID, judge
from slurm_resilience.plain import plain
from slurm_resilience.planning.measured import of_checkpoints

CLEAN, FOUND = 0, 1
MOST_PASSES = 4
MOST_SHOWN = 300
"""Characters of a message: a script's own words may stand in it."""


class Report(msgspec.Struct, frozen=True):
    """What is wrong with one file, and what was mended."""

    file: str
    findings: list[Finding]
    fixed: list[str]


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    parser = commands.add_parser(
        "lint",
        help="judge sbatch files before they cost a night",
        description="Look for what loses training: a job that does not come back, a notice that"
        " nobody hears, ranks laid out wrongly, variables that do nothing. Exit status 0: clean;"
        " 1: findings; 2: a file could not be read. A comment `# slurm-resilience: ignore=RULE`"
        " anywhere in a file silences that rule in it.",
    )
    parser.add_argument(
        "scripts",
        nargs="+",
        type=path,
        metavar="SCRIPT",
        help="an sbatch file (-: standard input)",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON document and nothing else"
    )
    parser.add_argument(
        "--fix", action="store_true", help="mend what is safe to mend, in the files themselves"
    )
    known = parser.add_mutually_exclusive_group()
    known.add_argument(
        "--save-s",
        type=seconds_of_a_day,
        metavar="SECONDS",
        help="what one save of this training takes",
    )
    known.add_argument(
        "--checkpoints", type=path, metavar="DIR",
        help="of earlier runs: the longest save there tells what one takes",
    )  # fmt: skip
    parser.set_defaults(do=_run)


def _run(arguments: argparse.Namespace) -> int:
    save_s = arguments.save_s if arguments.checkpoints is None else _took(arguments.checkpoints)
    # All of them first: where one cannot be read, none is changed.
    texts = {script: _text_of(script) for script in dict.fromkeys(arguments.scripts)}
    if arguments.fix and standard_input.NAME in texts:
        raise UsageError("--fix: standard input cannot be mended; name the file")
    reports = [
        _report(script, text, save_s=save_s, fix=arguments.fix)
        for script, text in texts.items()
    ]
    if arguments.json:
        print_json(_document(reports))
    else:
        for report in reports:
            _show(report)
        _sum_up(reports)
    return FOUND if any(report.findings for report in reports) else CLEAN


def _text_of(script: Path) -> str:
    if script != standard_input.NAME:
        return act.read(script)
    data = standard_input.of_at_most(act.MOST_BYTES)
    return data.decode("utf-8", errors="surrogateescape")


def _report(script: Path, old: str, *, save_s: float | None, fix: bool) -> Report:
    file = "" if script == standard_input.NAME else str(script.absolute())
    first = findings = judge(facts.read(old, file=file), save_s=save_s)
    text = old
    for _ in range(MOST_PASSES if fix else 0):
        if not any(finding.edit for finding in findings):
            break
        # One change may uncover what another one mends.
        text = fixed(facts.read(text, file=file), findings)
        findings = judge(facts.read(text, file=file), save_s=save_s)
    if text != old:
        act.write(script, old, text)
    left = {finding.rule for finding in findings}
    mended = dict.fromkeys(finding.rule for finding in first if finding.rule not in left)
    return Report(os.fspath(script), findings, list(mended))


def _show(report: Report) -> None:
    name = plain(report.file, most=MOST_SHOWN)
    for rule in report.fixed:
        print(f"{name}: fixed: {rule}")
    for finding in report.findings:
        where = f"{name}:{finding.line}" if finding.line else name
        print(f"{where}: {finding.rule}: {plain(finding.message, most=MOST_SHOWN)}")
        print(f"    why: {BY_ID[finding.rule].why}")
        print(f"    fix: {plain(finding.fix, most=MOST_SHOWN)}")


def _sum_up(reports: Sequence[Report]) -> None:
    count = sum(len(report.findings) for report in reports)
    safe = sum(finding.edit is not None for report in reports for finding in report.findings)
    if count:
        tail = f"; --fix mends {safe} of them" if safe else ""
        said = f"{count} finding{'s' * (count > 1)}{tail}"
        print(f"{said}; # slurm-resilience: ignore=RULE silences one", file=sys.stderr)


def _document(reports: Sequence[Report]) -> dict[str, object]:
    files = [
        {
            "file": report.file,
            "fixed": report.fixed,
            "findings": [
                {
                    "rule": one.rule,
                    "line": one.line or None,
                    "message": one.message,
                    "why": BY_ID[one.rule].why,
                    "fix": one.fix,
                    "fixable": one.edit is not None,
                }
                for one in report.findings
            ],
        }
        for report in reports
    ]
    return {"files": files}


def _took(directory: Path) -> float:
    save_s = of_checkpoints(directory).save_s
    if save_s is None:
        raise UsageError(
            f"--checkpoints {shown(directory)}: no checkpoint there tells what a save takes"
        )
    return save_s
