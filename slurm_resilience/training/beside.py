"""Work beside the training thread."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def beside(work: Callable[[], T]) -> "Future[T]":
    """
    Do *work* in a thread of its own, which does not hold the end of the process.

    An executor's threads do: one that waits for a rank that fell silent would keep this one from
    leaving, for as long as the ranks wait for each other.
    """
    future: Future[T] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=do, name="slurm-resilience-writer", daemon=True).start()
    return future
