"""How a counter or a state went over time, and the questions that rules ask of it. Pure."""

from collections.abc import Callable

import msgspec

HOUR_S = 3600.0
DAY_S = 86_400.0
LEAST_S = 60.0
"""Readings that come closer together are taken as a minute: a handful of errors makes no rate."""


class Trend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    One value as the health checks of this boot saw it.

    Only changes are held, so a counter that stands still costs one entry.
    """

    subject: str
    """
    `mlx5_0:1`, `eth0`, `node`: as findings name it; a GPU by its UUID, or `gpu3` where it tells
    none: NVML counts anew where one is lost.
    """
    counter: str
    """The field that it is read from."""
    changes: tuple[tuple[float, float], ...]
    """(seconds since boot, value), oldest first: the first reading, then each that differed."""
    until_s: float
    """Seconds since boot of the last reading."""

    @property
    def value(self) -> float:
        """What the last reading gave."""
        return self.changes[-1][1]

    @property
    def unchanged_s(self) -> float:
        """Seconds for which every reading has given that value."""
        return self.until_s - self.changes[-1][0]

    def added(self, over_s: float) -> float:
        """
        How much a counter grew in the last *over_s* seconds, as far as readings reach back.

        Where it fell it was started anew (a reset, a driver load): what it shows since is growth.
        """
        begin = self.until_s - over_s
        grown = 0.0
        for (_, before), (at, after) in zip(self.changes, self.changes[1:], strict=False):
            if at > begin:
                grown += after - before if after >= before else after
        return grown

    def watched_s(self, over_s: float) -> float:
        """Seconds of the last *over_s* that readings cover."""
        return min(over_s, self.until_s - self.changes[0][0])

    def per_second(self, over_s: float) -> float | None:
        """
        Mean growth a second over the last *over_s*, `LEAST_S` at least; None before there were two
        readings.
        """
        seconds = self.watched_s(over_s)
        return self.added(over_s) / max(seconds, LEAST_S) if seconds > 0 else None

    def lasted_s(self, mask: int = -1) -> float:
        """Seconds for which every reading has had one of the bits of *mask*; 0 where it has not."""
        return self.held_s(lambda value: bool(int(value) & mask))

    def held_s(self, fits: Callable[[float], bool]) -> float:
        """Seconds for which *fits* has been true of every reading; 0 where it is not."""
        since = None
        for at, value in self.changes:
            if not fits(value):
                since = None
            elif since is None:
                since = at
        return 0.0 if since is None else self.until_s - since
