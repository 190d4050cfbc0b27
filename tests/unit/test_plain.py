"""A user's text in lines for people."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.plain import MOST, plain

FORGED = "stopped\n\x1b[2Jslurm-resilience: job 1: \r\x9b31m\u202e\u2028\x00\udc80"


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    """Line ends, escape sequences of both kinds, marks that turn the direction, stray bytes."""
    assert plain(FORGED) == (
        r"stopped\n\x1b[2Jslurm-resilience: job 1: \r\x9b31m\u202e\u2028\x00\udc80"
    )
    assert plain("Schrödinger's 学習, 5 % done") == "Schrödinger's 学習, 5 % done"


@given(st.text(alphabet=st.characters(), max_size=2000))
def test_every_text_becomes_one_short_line(text: str) -> None:
    """Whatever it is."""
    said = plain(text)

    assert said.isprintable()
    assert len(said) <= MOST + len("… (cut)")


def test_it_says_that_something_was_cut() -> None:
    """Nobody takes the beginning for the whole."""
    assert plain("x" * 100_000) == "x" * MOST + "… (cut)"


@pytest.mark.parametrize(
    ("does", "status", "says"),
    [
        (f"raise UsageError({FORGED!r})", 2, r"slurm-resilience: stopped\n\x1b[2J"),
        (f"logging.info('job 7: %s', {FORGED!r})", 0, r"job 7: stopped\n\x1b[2J"),
        ("logging.info('x' * 100_000)", 0, "x… (cut)"),
        ("{}['state']", 70, "KeyError: 'state'"),
        ("print('x' * 1_000_000)", 141, ""),
    ],
    ids=["refusal", "log", "long", "fault", "nobody reads"],
)
def test_a_command_ends_with_its_own_status_and_in_plain_lines(
    does: str, status: int, says: str
) -> None:
    """1 would mean unfit, which a traceback does not; a user's text forges no line of the log."""
    program = (
        "import logging, sys\n"
        "from slurm_resilience import cli\n"
        "from slurm_resilience.errors import UsageError\n"
        "class Group:\n"
        "    def add_commands(commands):\n"
        "        commands.add_parser('do').set_defaults(do=Group.do)\n"
        "    def do(arguments):\n"
        f"        {does}\n"
        "        return 0\n"
        "sys.modules['slurm_resilience.cli.status'] = cli.status = Group\n"
        "sys.exit(cli.main(['do']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        said = process.stderr.read() if process.stderr else ""

    assert process.returncode == status
    assert says in said
    assert status == 70 or said.count("\n") <= 1
