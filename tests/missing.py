"""A real part that a test needs and this machine lacks."""

import os
from typing import NoReturn

import pytest


def missing(why: str) -> NoReturn:
    """Skip the test, and say why; in CI it is an error: silence must not look like success."""
    if "CI" in os.environ:
        pytest.fail(f"not tested: {why}")
    pytest.skip(why)
