"""The testbed's one error."""


class TestbedError(Exception):
    """Could not do it; one line that says why and what to do."""

    __test__ = False  # pytest: not a test class, in spite of its name
