"""What a hook says may hold a user's words: a process chooses its own name."""

import pytest

from slurm_resilience.node.voice import say


def test_a_users_words_forge_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither for a terminal nor for syslog."""
    say("left over: \x1b[2Jpython\nslurm-resilience: forged")

    said = capsys.readouterr().err
    assert said == "slurm-resilience: left over: \\x1b[2Jpython slurm-resilience: forged\n"
