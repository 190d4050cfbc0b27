"""When to save. Pure: steps and clock come in as arguments."""

from typing import NamedTuple


class Due(NamedTuple):
    """Every so many steps or seconds since the last save, whichever is first; None: never by it."""

    every_steps: int | None
    every_s: float | None

    def by_steps(self, step: int, last: int) -> bool:
        """Whether *step* is enough steps after *last*, the step last saved."""
        return self.every_steps is not None and step - last >= self.every_steps

    def by_clock(self, now: float, since: float) -> bool:
        """Whether enough seconds have gone by at *now*, the last save having begun at *since*."""
        return self.every_s is not None and now - since >= self.every_s
