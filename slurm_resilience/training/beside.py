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
    leaving, for as long as the ranks wait for each other. Where no thread is to be had (a limit on
    processes, the end of the interpreter) it is done at once: other ranks may wait for this one's
    part of it.
    """
    future: Future[T] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)

    try:
        threading.Thread(target=do, name="slurm-resilience-writer", daemon=True).start()
    except RuntimeError:
        do()
    return future
