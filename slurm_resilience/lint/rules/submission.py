"""Rules about what sbatch is told: whether the job comes back, and what becomes of its output."""

import re
from collections.abc import Iterator

from slurm_resilience.comment import TOKEN, takes_part
from slurm_resilience.lint.findings import Finding, UnixLineEnds
from slurm_resilience.lint.options import Option
from slurm_resilience.lint.rules.rule import Rule
from slurm_resilience.lint.view import View

MOST_UNREAD = 20
"""Lines of one script that are named; who moves so many finds the others."""
_PER_JOB = re.compile(r"%\d*[jJA]")
_VARIABLE = re.compile(r"\$[\w{(]|`")


def no_requeue(view: View) -> Iterator[Finding]:
    """Either is a decision, which `slurm-resilience run` shows; saying nothing leaves it to the site."""
    if view.is_long and _about_requeue(view) is None:
        yield Finding(
            "no-requeue",
            0,
            "neither --requeue nor --no-requeue",
            "add #SBATCH --requeue; or --no-requeue, where the training cannot resume",
            view.directive("--requeue") if view.supervised else None,
        )


def requeue_forbidden(view: View) -> Iterator[Finding]:
    """What brings the job back is refused by Slurm then."""
    option = _about_requeue(view)
    if option and option.name == "no-requeue" and view.supervised:
        yield Finding(
            "requeue-forbidden",
            option.line,
            "--no-requeue beside slurm-resilience run, which brings the job back by a requeue",
            "write --requeue; or start the training without slurm-resilience run",
        )


def takes_no_part(view: View) -> Iterator[Finding]:
    """`slurm-resilience run` sets the Comment when it starts; until then nobody knows the job."""
    option = view.script.option("comment")
    told = takes_part((option and option.value) or "")
    if view.supervised and view.script.last_directive and not told:
        yield Finding(
            "takes-no-part",
            option.line if option else 0,
            f"the job's Comment does not say {TOKEN} before it runs",
            f"put {TOKEN} into it" if option else f"add #SBATCH --comment={TOKEN}",
            None if option else view.directive(f"--comment={TOKEN}"),
        )


def truncated_output(view: View) -> Iterator[Finding]:
    """Only where the job may come back."""
    option = view.script.option("open-mode")
    said = _about_requeue(view)
    comes_back = said is None or said.name == "requeue"
    if (
        view.is_long
        and comes_back
        and (option is None or not (option.value or "").startswith("a"))
    ):
        yield Finding(
            "truncated-output",
            option.line if option else 0,
            "without --open-mode=append each attempt truncates the output of the one before",
            "add #SBATCH --open-mode=append",
            None if option else view.directive("--open-mode=append"),
        )


def no_time_limit(view: View) -> Iterator[Finding]:
    """The partition's default may be an hour or endless."""
    if view.training and view.script.last_directive and not view.says("time"):
        yield Finding(
            "no-time-limit",
            0,
            "no --time",
            "add #SBATCH --time=…, what one attempt should take",
        )


def shared_output(view: View) -> Iterator[Finding]:
    """The name of the job alone is not per job."""
    for name in ("output", "error"):
        option = view.script.option(name)
        path = (option and option.value) or ""
        is_file = path and not path.startswith("/dev/")
        if option and is_file and view.training and not _PER_JOB.search(path):
            yield Finding(
                "shared-output",
                option.line,
                f"--{name}={path} is the same file for every job",
                "put %j into the name (%A_%a in an array)",
            )
            return


def variable_in_directive(view: View) -> Iterator[Finding]:
    """Slurm takes the text as it stands."""
    for option in view.script.options:
        if option.name not in {"wrap", "comment"} and _VARIABLE.search(option.value or ""):
            yield Finding(
                "variable-in-directive",
                option.line,
                f"--{option.name}={option.value}: Slurm does not expand shell variables here",
                "write the value out, use %j, %x, %u, or give the option to sbatch",
            )
            return


def unread_directive(view: View) -> Iterator[Finding]:
    """sbatch stops reading at the first command, and wants `#SBATCH` at the start of the line."""
    # What another language writes about it (a test suite that makes scripts) is text.
    for line in view.script.unread[:MOST_UNREAD] if view.script.is_shell else ():
        yield Finding(
            "unread-directive",
            line,
            f"sbatch does not read this line: {view.line(line).strip()}",
            "put it at the start of its line, above the first command",
        )


def no_interpreter(view: View) -> Iterator[Finding]:
    """sbatch refuses such a file."""
    if view.script.lines and not view.script.interpreter:
        yield Finding(
            "no-interpreter",
            1,
            "the first line is not #!…: sbatch refuses it",
            "begin with #!/bin/bash",
        )


def dos_line_ends(view: View) -> Iterator[Finding]:
    """sbatch refuses such a file."""
    for number, line in enumerate(view.script.lines, 1):
        if line.endswith("\r\n"):
            yield Finding(
                "dos-line-ends",
                number,
                "lines end as on Windows: sbatch refuses the file",
                "run dos2unix on it",
                UnixLineEnds(),
            )
            return


def _about_requeue(view: View) -> Option | None:
    """`--requeue` or `--no-requeue`: the last of them counts."""
    about = [one for one in view.script.options if one.name in {"requeue", "no-requeue"}]
    return about[-1] if about else None


RULES = (
    Rule(
        "no-requeue", no_requeue,
        "whether the job comes back when a node is lost is left to the site's JobRequeue",
        "`#SBATCH --requeue`", safe=True,
    ),
    Rule(
        "requeue-forbidden", requeue_forbidden,
        "Slurm refuses every requeue of such a job, ours too", "`--requeue`",
    ),
    Rule(
        "takes-no-part", takes_no_part,
        "until `slurm-resilience run` starts, neither the controller nor the site's submission scripts"
        " know the job: one that dies in a prolog waits out Slurm's two minutes",
        "`#SBATCH --comment=slurm-resilience`", safe=True,
    ),
    Rule(
        "truncated-output", truncated_output,
        "a requeued job begins its output anew: what the dead attempt said is gone",
        "`#SBATCH --open-mode=append`", safe=True,
    ),
    Rule(
        "no-time-limit", no_time_limit,
        "the partition's default may end the job early, and an endless one burns GPUs when it hangs",
        "`#SBATCH --time=…`",
    ),
    Rule(
        "shared-output", shared_output,
        "two jobs write into one file; nobody can tell whose lines they are", "`%j` in the name",
    ),
    Rule(
        "variable-in-directive", variable_in_directive,
        "sbatch reads directives before any shell does: a folder named `$HOME` is made, or the job"
        " fails without output",
        "the value itself, or `%j`, `%x`, `%u`",
    ),
    Rule(
        "unread-directive", unread_directive,
        "sbatch reads directives up to the first command, and only at the start of a line; others"
        " are comments",
        "all directives on top",
    ),
    Rule("no-interpreter", no_interpreter, "sbatch refuses it", "`#!/bin/bash` as first line"),
    Rule("dos-line-ends", dos_line_ends, "sbatch refuses it", "Unix line ends", safe=True),
)  # fmt: skip
