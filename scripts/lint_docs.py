#!/usr/bin/env python3
"""Print docs/lint.md from the rules of `slurm-resilience lint`."""

from slurm_resilience.lint.rules import RULES, layout, notice, paths, submission, variables
from slurm_resilience.lint.rules.rule import Rule

INTRODUCTION = """\
# Lint

    slurm-resilience lint train.sbatch [more files] [--fix] [--json]

reads sbatch files as Slurm and bash do and names what loses training, each with its line, why it
matters and what helps. Exit status 0: clean; 1: findings; 2: a file could not be read, and then no
file is changed.

- `--fix` mends what is marked *safe* below, in the file itself: whole or not at all, its mode and
  owner kept; a file that its owner may not write is left alone. It decides nothing: a job is given `--requeue` only where `slurm-resilience run` starts
  it and the file says neither `--requeue` nor `--no-requeue`.
- `--save-s SECONDS`, or `--checkpoints DIR` with checkpoints of earlier runs, tells what one save
  takes (the longest of them): then the lead of `--signal` is judged too.
- A comment `# slurm-resilience: ignore=RULE` (or `ignore=RULE,RULE`) anywhere in a file silences
  these rules in that file.

What a file cannot tell is not guessed: values that are worked out while the job runs, and options
that stand on somebody's sbatch line. `no-requeue`, `truncated-output` and `no-signal` look only at
files that start training and ask for more than an hour (or for no time at all); the other rules about
the notice look at every file that asks for one, since a signal that nobody handles ends any job.

What the rules about the notice and about arrays say was tried on Slurm 22.05.

This page is written by `scripts/lint_docs.py`.
"""
SUBJECTS = (
    ("What sbatch is told", submission.RULES),
    ("The notice before the time limit", notice.RULES),
    ("Nodes, tasks, ranks and ports", layout.RULES),
    ("What NCCL and torch are told", variables.RULES),
    ("Where checkpoints go", paths.RULES),
)


def main() -> None:
    print(INTRODUCTION)
    told: set[str] = set()
    for title, rules in SUBJECTS:
        show(title, rules)
        told |= {rule.id for rule in rules}
    show("The file itself", tuple(rule for rule in RULES if rule.id not in told))


def show(title: str, rules: tuple[Rule, ...]) -> None:
    print(f"## {title}\n")
    print("| rule | why | what helps | `--fix` |\n|---|---|---|---|")
    for rule in rules:
        print(f"| `{rule.id}` | {rule.why} | {rule.fix} | {'safe' if rule.safe else ''} |")
    print()


if __name__ == "__main__":
    main()
