"""
The ranks of one training, talking over a gloo group of their own.

Apart from the user's collectives, so that what the writer thread exchanges never meets them. Every
exchange carries failures along: where one rank fails, all raise the same error (a `CheckpointError`
of its kind, or a `UsageError`; its cause is the `OSError`, where there was one) and none waits for it.
A rank that died breaks its connections and is noticed at once; one that is silent, after the
group's time-out.
"""

import logging
import os
import platform
import re
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist

from slurm_resilience.errors import CheckpointError, ResilienceError, UsageError
from slurm_resilience.training.beside import beside

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

_PLACE = re.compile(r"^\[\S+:\d+\] ")
WORD_S = 5.0
"""Between the words of a rank that is still at work."""


class Failure(NamedTuple):
    """What went wrong on one rank, in one line."""

    rank: int
    node: str
    text: str
    kind: type[CheckpointError | UsageError] = CheckpointError
    errno: int | None = None
    """What the system said, where it was the system."""


class Peers:
    """All ranks, or this process alone."""

    def __init__(self, *, timeout_s: float) -> None:
        """Every rank has to come here. Raises `UsageError` where the ranks are not connected."""
        self.rank, self.world_size = 0, 1
        self.lost = ""
        """Why nothing can be exchanged any more, once a rank has died or fell silent."""
        self._timeout = timedelta(seconds=timeout_s)
        self._group: dist.ProcessGroup | None = None
        if dist.is_available() and dist.is_initialized():
            self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        elif os.environ.get("WORLD_SIZE", "1") != "1":
            raise UsageError(
                f"one of {os.environ['WORLD_SIZE']} ranks, but torch.distributed is not initialized: "
                "call init_process_group before Run(...)"
            )
        self._group = self.new_group()

    @property
    def alone(self) -> bool:
        """Whether there are no other ranks."""
        return self.world_size == 1

    def new_group(self) -> dist.ProcessGroup | None:
        """One more group of all ranks; None where there is only one."""
        if self.alone:
            return None
        try:
            group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=self._timeout)
        except RuntimeError as error:
            first_line = str(error).strip().partition("\n")[0]
            raise UsageError(
                f"the ranks cannot meet over gloo ({first_line}); "
                "GLOO_SOCKET_IFNAME names the interface that connects the nodes"
            ) from error
        return group

    def leave(self, group: dist.ProcessGroup | None) -> None:
        """
        Give up a group on which nothing is under way.

        Its threads end with it. One that is still to let go of a tensor when the interpreter ends
        would abort the process.
        """
        if group is not None and not self.lost and dist.is_initialized():
            with suppress(
                ValueError, AssertionError, RuntimeError
            ):  # the user's script was first
                dist.destroy_process_group(group)

    def end(self) -> None:
        """Exchange no more."""
        group, self._group = self._group, None
        self.leave(group)

    def meet_again(self) -> None:
        """
        Exchange over a new group, after a rank was silent for too long and is back.

        Every rank has to come here, with no exchange under way.
        """
        # The old one is left as it is: it is broken.
        self._group, self.lost = self.new_group(), ""

    def log_level(self, level: int) -> int:
        """*level* on rank 0, INFO on the others: what all of them see is said once."""
        return level if self.rank == 0 else logging.INFO

    def tried(self, do: Callable[[], T]) -> T | Failure:
        """What *do* returns, or why it failed; to be `shared`."""
        try:
            return do()
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            text = f"{where}{error.strerror or error}"
            return Failure(self.rank, platform.node(), text, CheckpointError, error.errno)
        except (CheckpointError, UsageError) as error:
            cause = error.__cause__
            number = cause.errno if isinstance(cause, OSError) else None
            return Failure(self.rank, platform.node(), str(error), type(error), number)
        except ResilienceError as error:
            return Failure(self.rank, platform.node(), str(error))
        except Exception as error:  # or the others would wait for this rank's word
            log.exception("rank %d failed", self.rank)
            return Failure(self.rank, platform.node(), f"{type(error).__name__}: {error}")

    def each(self, do: Callable[[], T]) -> list[T]:
        """What *do* returns on every rank, by rank; its error on all where one fails."""
        return self.shared(self.tried(do))

    def each_at_length(self, do: Callable[[], T]) -> list[T]:
        """As `each`, where it may take longer on one rank than others may be silent."""
        work = beside(lambda: self.tried(do))
        while True:
            futures.wait([work], timeout=min(WORD_S, self._timeout.total_seconds() / 4))
            if not self.most(not work.done()):
                return self.shared(work.result())

    def shared(self, mine: T | Failure) -> list[T]:
        """Every rank's outcome of `tried`, by rank; its error on all where one failed."""
        if self.alone:
            return _succeeded([mine])
        everybody: list[T | Failure | None] = [None] * self.world_size
        with self._connected():
            dist.all_gather_object(everybody, mine, group=self._group)
        return _succeeded(everybody)

    def first(self, do: Callable[[], T]) -> T:
        """What *do* returns on rank 0, told to all; its error on all where it fails."""
        told: list[T | Failure | None] = [self.tried(do) if self.rank == 0 else None]
        if not self.alone:
            with self._connected():
                dist.broadcast_object_list(told, src=0, group=self._group)
        return _succeeded(told)[0]

    def dealt(self, mine: T | Failure, deal: Callable[[list[T]], list[R]]) -> R:
        """
        Every rank's outcome of `tried` to rank 0; of the list that *deal* makes of them there, each
        rank gets its own entry.

        Raises the error on all ranks where any part fails; *deal* is left out if a rank failed.
        """
        everybody = self._gathered(mine)
        if self.alone:
            return deal(_succeeded(everybody))[0]
        hand = None
        if self.rank == 0:
            made = self.tried(lambda: deal(_succeeded(everybody)))
            hand = [made] * self.world_size if isinstance(made, Failure) else made
        got: list[R | Failure | None] = [None]
        with self._connected():
            dist.scatter_object_list(got, hand, src=0, group=self._group)
        return _succeeded(got)[0]

    def most(self, number: int) -> int:
        """The largest *number* of all ranks."""
        return self.largest(number, 0, 0)[0]

    def largest(self, *numbers: int) -> list[int]:
        """Of three numbers, each the largest of all ranks' at its place."""
        if self.alone:
            return list(numbers)
        # Always three: ranks that have lost step meet here with different questions.
        words = torch.tensor(numbers, dtype=torch.int64, device="cpu")
        with self._connected():
            dist.all_reduce(words, op=dist.ReduceOp.MAX, group=self._group)
        return [int(word) for word in words.tolist()]

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Turn a broken or silent connection into our error, this time and from then on."""
        if self.lost:
            raise CheckpointError(f"lost other ranks: {self.lost}")
        try:
            yield
        except (RuntimeError, ValueError) as error:
            # torch's: for a lost peer and for a time-out alike; for a group that is no more.
            self.lose(error)
            raise CheckpointError(f"lost other ranks: {self.lost}") from error

    def lose(self, error: RuntimeError | ValueError) -> None:
        """Take note that a rank is lost; *error* is torch's."""
        first_line = str(error).strip().partition("\n")[0]
        # gloo's: where in its own source, what happened, what that often means.
        why = _PLACE.sub("", first_line).partition(" This is typically ")[0]
        if not dist.is_initialized():
            why = "destroy_process_group() was called before the save had ended"
        self.lost = self.lost or why

    def _gathered(self, mine: T | Failure) -> list[T | Failure | None]:
        if self.alone:
            return [mine]
        everybody: list[T | Failure | None] = [None] * self.world_size
        with self._connected():
            dist.gather_object(mine, everybody if self.rank == 0 else None, group=self._group)
        return everybody


def _succeeded(results: list[T | Failure | None]) -> list[T]:
    failures = [result for result in results if isinstance(result, Failure)]
    if failures:
        rank, node, text, kind, number = failures[0]
        more = f" (and {len(failures) - 1} more ranks)" if len(failures) > 1 else ""
        where = f"rank {rank} on {node}: " if len(results) > 1 else ""
        cause = None if number is None else OSError(number, os.strerror(number))
        raise kind(f"{where}{text}{more}") from cause
    return results  # type: ignore[return-value]
