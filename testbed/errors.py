"""The testbed's one error."""

from slurm_resilience.errors import ResilienceError


class TestbedError(ResilienceError):
    """Could not do it; says why and what to do."""

    __test__ = False  # pytest: not a test class, in spite of its name
