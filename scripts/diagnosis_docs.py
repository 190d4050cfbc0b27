#!/usr/bin/env python3
"""Print docs/diagnosis.md from the rules."""

from collections.abc import Iterator

from slurm_resilience.diagnosis.rules import ALL, NO_LINES
from slurm_resilience.diagnosis.rules.row import ACCUSES, ROLES, Row

INTRODUCTION = """\
# Diagnosis

    slurm-resilience diagnose slurm-41.out            # a job's output
    slurm-resilience diagnose logs/                   # torchrun's --log-dir, or a run directory
    slurm-resilience diagnose slurm-41.out dmesg.txt  # with the kernel log of a node
    slurm-resilience diagnose --job 41                # what Slurm and the job's files say
    slurm-resilience diagnose --explain fabric        # what a cause means

It reads text and says why the job died: class, cause, the line that decided, whom the text accuses,
and whether a retry can help. Nothing is sent anywhere, nothing is guessed: where no line tells, it says
`unknown`. The supervisor judges by the same rules, in the same code: it lays before them what each node
printed last and its exit status, and leaves out what Slurm prints, as it asks Slurm itself.

## How it decides

1. Of a file to which several attempts were appended only the last one counts. It begins at our own
   line or a launcher's banner, else behind Slurm's word of an end where a program speaks again at
   length or, after a requeue, a preemption or a node's failure, is launched (`bash -x`) or fails anew.
2. Slurm's own record (`--job`, `--state`, or lines of sacct and scontrol) outranks all; what our
   watchers left in `incident.json` outranks text. Only that a job reached its time limit or was
   cancelled does not, where an incident, a named cause or a collective timeout stands before it: so
   ends whatever hangs. Slurm's word is then quoted as evidence.
3. Then the kind of a line counts, in the order of the sections below, and inside a kind its moment:
   the first cause comes before its echoes, also across interleaved ranks and several files.
   An exception that the program itself raised stands behind named causes and before symptoms.
4. Lines that the program lived through (eight steps or more went by after them) do not count, nor
   does code that a traceback quotes, nor what `bash -x` shows. A line that merely names a fault (in
   quotes, or with a try that is repeated or skipped) stands behind symptoms; confidence is then low.
5. Who reports a collective timeout is a victim. Suspects are ranks that are behind in the same
   process group, or the few that are silent. Who reports an error of its own GPU has it. What all
   nodes of a job report (`--job`) is no fault of a node: nobody is accused, and none excluded. A
   rank's node is taken from torchrun's closing table, or from srun's words for the task.
6. Three nodes or more that Slurm lost within two minutes, or two behind one switch
   (`--topology topology.conf`), are one event of power or network. Where ranks lost each other after
   steps had grown several-fold, the network is the cause.

`--json` prints one document: `class`, `cause`, `retry`, `suspects` (`rank`, `node`, `why`, and
`local_rank` where only that is told), `evidence` (`file`, `line`, `text`), `advice`, `confidence`.
`line` is null where more than a gibibyte lies before the attempt. Of an attempt that wrote more than four
gibibytes the last four are read.

| retry | meaning |
|---|---|
| `same-nodes` | requeue as it is |
| `exclude-node` | requeue without the node |
| `hold` | a person must do something first |
| `stop` | a retry cannot help |
| `leave` | Slurm is already at it |
| `ask-slurm` | only Slurm's record can tell |

## Rules

A new rule is a row in `slurm_resilience/diagnosis/rules/`, with its source and a real line, which is
its test. This page is written by `scripts/diagnosis_docs.py`.
"""


def main() -> None:
    print(INTRODUCTION)
    for role, meaning in ROLES.items():
        rows = [row for row in ALL if row.role == role and row not in NO_LINES]
        print(f"### {meaning[0].upper()}{meaning[1:]}\n")
        print("| cause | class | retry | accuses | what it means, and what to do | source |")
        print("|---|---|---|---|---|---|")
        for line in shown(rows):
            print(line)
        print()
    print("### Found otherwise than by one line\n")
    print("| cause | class | retry | what it means, and what to do |\n|---|---|---|---|")
    for row in NO_LINES:
        print(f"| `{row.id}` | {row.class_} | {row.retry} | {cell(row.advice)} |")


def shown(rows: list[Row]) -> Iterator[str]:
    for row in rows:
        whom = ACCUSES[row.accuses].removeprefix("accuses ")
        yield (
            f"| `{row.id}` | {row.class_} | {row.retry} | {whom} | {cell(row.advice)}"
            f" | {cell(row.source)} |"
        )


def cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
