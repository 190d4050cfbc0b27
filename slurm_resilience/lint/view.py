"""A script and what follows from it, as rules look at it."""

import msgspec

from slurm_resilience.lint import asked
from slurm_resilience.lint.facts import Script
from slurm_resilience.lint.findings import Insert
from slurm_resilience.lint.launches import Launch, launches

SHORT_JOB_S = 3600
"""A job of up to an hour is not worth bringing back: it is started again."""


class View(msgspec.Struct, frozen=True):
    """A script and what follows from it, as rules look at it."""

    script: Script
    launches: tuple[Launch, ...]
    save_s: float | None = None
    """How long the longest save took, where that was measured."""

    @property
    def training(self) -> tuple[Launch, ...]:
        """What starts ranks that train."""
        return tuple(launch for launch in self.launches if self._trains(launch))

    def _trains(self, launch: Launch) -> bool:
        # A program of any name that many tasks with GPUs run together is hardly anything else.
        options = (*self.script.options, *(launch.command.step or ()))
        together = (asked.nodes(options) or 1) * (asked.tasks_per_node(options) or 1) > 1
        spread = launch.command.step is not None and together and asked.gpus_per_node(options)
        return launch.trains or bool(spread and not launch.is_something_else)

    @property
    def supervised(self) -> Launch | None:
        """What `slurm-resilience run` starts."""
        return next((launch for launch in self.launches if launch.supervised), None)

    @property
    def is_long(self) -> bool:
        """Whether it trains, by directives of its own, and not just for an hour."""
        limit_s = asked.time_limit_s(self.script.options)
        return bool(
            self.training
            and self.script.last_directive
            and (limit_s is None or limit_s > SHORT_JOB_S)
        )

    @property
    def nodes(self) -> int | None:
        """As the directives ask."""
        return asked.nodes(self.script.options)

    def says(self, option: str) -> bool:
        """Whether a directive says *option*."""
        return self.script.option(option) is not None

    def directive(self, text: str) -> Insert | None:
        """A directive to add; None in a het job, where each component has its own."""
        return None if self.script.is_het else Insert(f"#SBATCH {text}")

    def line(self, number: int) -> str:
        """A line of the script without its end."""
        return self.script.lines[number - 1].rstrip("\r\n")


def view(script: Script, *, save_s: float | None = None) -> View:
    """*script* as rules look at it."""
    return View(script, launches(script), save_s)
