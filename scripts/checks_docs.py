#!/usr/bin/env python3
"""Print docs/checks.md from the checks' own rows."""

from slurm_resilience.node.checks import GROUPS, Check

INTRODUCTION = """\
# Checks

Every check there is: what a finding of it means and what helps, when it is found and how bad it is,
and why the threshold is what it is. A check is switched off or set to another severity by
`node.checks` in the [configuration](configuration.md), or at once on one node by a file (see there).

*slow*: only the health check looks, and the prolog takes its word for `node.verdict_age_s`. *GPU*: of
no concern to a job without GPUs. *heals by*: what makes the fault go, and so what has to happen before
the health check gives the node back: itself, a GPU reset (or driver reload), a reboot, a repair
(then only a person gives it back). *boot*: for `node.grace_s` after boot it is only said. *asked*:
advice that no hook says, only `check`.

This page is written by `scripts/checks_docs.py`.
"""


def main() -> None:
    print(INTRODUCTION)
    for title, checks in GROUPS.items():
        print(f"## {title}\n")
        print("| check | meaning, and what helps | when, and how bad | why | heals by | |")
        print("|---|---|---|---|---|---|")
        for name, check in checks.items():
            print(
                f"| `{name}` | {check.meaning} | {check.rule} | {check.why} | {check.heals}"
                f" | {_marks(check)} |"
            )
        print()


def _marks(check: Check) -> str:
    marks = {
        "slow": check.slow,
        "GPU": check.of_gpus,
        "boot": check.comes_up,
        "asked": check.on_request,
    }
    return ", ".join(name for name, is_so in marks.items() if is_so)


if __name__ == "__main__":
    main()
