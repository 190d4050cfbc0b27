"""Rules about the notice before the time limit: whether it is sent, and who hears it."""

import re
from collections.abc import Iterator, Sequence

from slurm_resilience import lead
from slurm_resilience.lint import asked
from slurm_resilience.lint.facts import Command
from slurm_resilience.lint.findings import Finding, Replace
from slurm_resilience.lint.launches import Launch
from slurm_resilience.lint.rules.rule import Rule
from slurm_resilience.lint.shell import simple_commands
from slurm_resilience.lint.view import View

BY_TORCHRUN = frozenset({"TERM", "INT", "HUP", "QUIT"})
"""Signals that torchrun handles by default, as the end."""
BY_SITE = "USR2"
"""What job_submit/slurm_resilience.lua has sent to the batch shell of a job that takes part."""
HARMLESS = frozenset({"CONT", "CHLD", "URG", "WINCH"})


def no_signal(view: View) -> Iterator[Finding]:
    """Not where the training watches the clock itself, as Megatron can."""
    if not view.is_long or view.says("signal"):
        return
    if any(launch.has("exit-duration-in-mins") for launch in view.training):
        return
    supervised = view.supervised
    heard = supervised is not None and supervised.command.is_exec
    yield Finding(
        "no-signal",
        0,
        "no --signal: nothing tells the training that its time limit comes near",
        "add #SBATCH --signal=B:USR2@120 and start with exec slurm-resilience run -- …",
        view.directive("--signal=B:USR2@120") if heard else None,
    )


def short_lead(view: View) -> Iterator[Finding]:
    """Measured, not guessed: silent where no save was measured."""
    notice = asked.notice(view.script.options)
    if notice is None or view.save_s is None:
        return
    need_s = lead.needed_s(view.save_s, 0.0)
    if notice.lead_s < need_s:
        yield Finding(
            "short-lead",
            notice.line,
            f"the notice comes {notice.lead_s} s before the time limit; a save that took"
            f" {view.save_s:.0f} s may need {need_s:.0f} s",
            f"write --signal=…@{lead.of_signal_s(view.save_s, 0.0):.0f}",
        )


def signal_past_run(view: View) -> Iterator[Finding]:
    """`slurm-resilience run` is the batch shell, and passes the notice on itself."""
    notice = asked.notice(view.script.options)
    launch = view.supervised
    if notice and launch and not notice.to_batch_shell:
        line = view.line(notice.line)
        # bash that has no trap for it and keeps its place would be killed by it.
        heard = launch.command.is_exec or _can_exec(view, launch) or _traps(view, notice.name)
        better = re.sub(r"(--signal[=\s]\s*[\"']?)(?:R:)?(?=[A-Za-z0-9])", r"\1B:", line)
        yield Finding(
            "signal-past-run",
            notice.line,
            f"--signal={notice.name} without B: goes to the steps, not to slurm-resilience run",
            f"write --signal=B:{notice.name}@{notice.lead_s}"
            + ("" if heard else ", and exec before slurm-resilience run, as the last command"),
            Replace(notice.line, better) if better != line and heard else None,
        )


def run_without_exec(view: View) -> Iterator[Finding]:
    """
    bash gets the signal, has no trap for it, and dies of it.

    Where the script says no `--signal` a site's cli_filter may say it for a job that takes part.
    """
    notice = asked.notice(view.script.options)
    launch = view.supervised
    if launch is None or launch.command.is_exec or (notice and not notice.to_batch_shell):
        return
    name = notice.name if notice else BY_SITE
    if not _traps(view, name):
        line = view.line(launch.line)
        yield Finding(
            "run-without-exec",
            launch.line,
            f"bash gets {name}{'' if notice else ' where the site adds --signal'}, not"
            " slurm-resilience run",
            f"write exec before it: it takes bash's place; or trap {name}",
            Replace(launch.line, f"exec {line}") if _can_exec(view, launch) else None,
        )


def signal_not_trapped(view: View) -> Iterator[Finding]:
    """`B:` without a trap: the notice ends the script, and with it the job."""
    notice = asked.notice(view.script.options)
    if notice and notice.name != "TERM" and _is_unheard(view, notice):
        yield Finding(
            "signal-not-trapped",
            notice.line,
            f"--signal=B:{notice.name} goes to bash, which has no trap for it and is killed by it",
            "use exec slurm-resilience run -- …; or trap it, start srun with & and wait in a loop",
        )


def term_not_trapped(view: View) -> Iterator[Finding]:
    """The job ends earlier, and nothing is saved."""
    notice = asked.notice(view.script.options)
    if notice and notice.name == "TERM" and _is_unheard(view, notice):
        yield Finding(
            "term-not-trapped",
            notice.line,
            f"--signal=B:TERM without a trap ends the script {notice.lead_s} s early; the ranks hear"
            " nothing before",
            "use exec slurm-resilience run -- …; or trap it, start srun with & and wait in a loop",
        )


def foreground_under_trap(view: View) -> Iterator[Finding]:
    """bash runs a trap when the command in the foreground has ended, which is too late."""
    notice = asked.notice(view.script.options)
    if not (notice and notice.to_batch_shell and _traps(view, notice.name)):
        return
    steps = [one for one in view.script.commands if one.name == "srun"]
    # Of steps that train nothing the last one is what the job is for.
    for command in [launch.command for launch in view.training] or steps[-1:]:
        if not command.background and not command.is_exec and not command.function:
            yield Finding(
                "foreground-under-trap",
                command.line,
                f"the trap for {notice.name} runs only when this command has ended",
                "start it with & and wait for it in a loop",
            )
            return


def single_wait(view: View) -> Iterator[Finding]:
    """`wait` returns when a trapped signal comes, not only when the child has ended."""
    notice = asked.notice(view.script.options)
    traps = _traps(view, notice.name) if notice and notice.to_batch_shell else []
    behind = [launch for launch in view.training if launch.command.background]
    if not traps or not behind:
        return
    handlers = {word for trap in traps for word in trap.words}
    waits = [command for command in view.script.commands if command.name == "wait"]
    waits_again = (
        len(waits) > 1
        or any(wait.in_loop or wait.function in handlers for wait in waits)
        or any(_waits(trap) for trap in traps)
    )
    if not waits_again:
        yield Finding(
            "single-wait",
            waits[0].line if waits else behind[0].line,
            "wait returns at the signal: the script ends, and Slurm kills the save under way"
            if waits
            else "nothing waits for what was started with &",
            'while kill -0 "$pid" 2>/dev/null; do wait "$pid"; done',
        )


def signal_kills_torchrun(view: View) -> Iterator[Finding]:
    """torchrun has a handler for four signals; another one kills it and orphans its ranks."""
    notice = asked.notice(view.script.options)
    if notice is None or notice.name in BY_TORCHRUN | HARMLESS:
        return
    for launch in view.launches:
        reached = not notice.to_batch_shell or launch.command.is_exec
        handles = launch.value("signals-to-handle") or _variable(view, "PET_SIGNALS_TO_HANDLE")
        handles += _variable(view, "TORCHELASTIC_SIGNALS_TO_HANDLE")
        told = launch.kind in {"torchrun", "accelerate"} and not launch.supervised
        if told and reached and notice.name not in handles:
            yield Finding(
                "signal-kills-torchrun",
                notice.line,
                f"{notice.name} reaches torchrun, which has no handler for it: it dies, and its"
                " ranks with it or as orphans",
                "use --signal=B:USR2@… and exec slurm-resilience run -- torchrun …",
            )
            return


def _is_unheard(view: View, notice: asked.Notice) -> bool:
    script = view.script
    if not notice.to_batch_shell or not script.is_shell or notice.name in HARMLESS:
        return False
    if view.supervised or not script.commands or any(one.is_exec for one in script.commands):
        return False
    return not _traps(view, notice.name)


def _can_exec(view: View, launch: Launch) -> bool:
    """Whether `exec` may simply be put before it: nothing comes behind it."""
    alone = launch.command == view.script.commands[-1] and not launch.command.function
    return alone and view.line(launch.line).startswith("slurm-resilience run")


def _traps(view: View, signal: str) -> Sequence[Command]:
    return [
        command
        for command in view.script.commands
        if command.name == "trap"
        and signal in {asked.signal_name(word) for word in command.words[2:]}
    ]


def _waits(trap: Command) -> bool:
    inside = simple_commands(trap.words[1]) if len(trap.words) > 1 else []
    return any(one.words[0].text == "wait" for one in inside)


def _variable(view: View, name: str) -> str:
    values = [one.value for one in view.script.assignments if one.name == name]
    return values[-1] if values else ""


RULES = (
    Rule(
        "no-signal", no_signal,
        "at the time limit the ranks get SIGTERM and KillWait (30 s): what came after the last"
        " checkpoint is lost",
        "`#SBATCH --signal=B:USR2@120` with `exec slurm-resilience run`", safe=True,
    ),
    Rule(
        "short-lead", short_lead,
        "the job is killed while it saves; judged where `--save-s` or `--checkpoints` tells what a"
        " save takes",
        "a lead of two saves, a minute at least",
    ),
    Rule(
        "signal-past-run", signal_past_run,
        "without `B:` Slurm signals the steps alone; `slurm-resilience run` waits in the batch shell's"
        " place",
        "`--signal=B:…`", safe=True,
    ),
    Rule(
        "run-without-exec", run_without_exec,
        "the signal goes to bash, which is killed by it, and the job with it",
        "`exec slurm-resilience run -- …`", safe=True,
    ),
    Rule(
        "signal-not-trapped", signal_not_trapped,
        "a signal without a handler kills bash; the ranks then get SIGTERM and KillWait (30 s), earlier"
        " than without the option",
        "`exec slurm-resilience run`, or a trap with `&` and a loop of `wait`",
    ),
    Rule(
        "term-not-trapped", term_not_trapped,
        "SIGTERM ends bash; the ranks then get SIGTERM and KillWait (30 s), earlier than without the"
        " option",
        "`exec slurm-resilience run`, or a trap with `&` and a loop of `wait`",
    ),
    Rule(
        "foreground-under-trap", foreground_under_trap,
        "bash runs a trap only between commands: it waits for srun until Slurm kills that at the time"
        " limit",
        "`srun … &`, then a loop of `wait`",
    ),
    Rule(
        "single-wait", single_wait,
        "`wait` returns when the trap has run; the script ends, Slurm kills the step while it saves, and"
        " calls the job COMPLETED",
        "`while kill -0 $pid; do wait $pid; done`",
    ),
    Rule(
        "signal-kills-torchrun", signal_kills_torchrun,
        "torchrun handles TERM, INT, HUP and QUIT; any other signal kills it",
        "`--signal=B:USR2@…` with `exec slurm-resilience run`",
    ),
)  # fmt: skip
