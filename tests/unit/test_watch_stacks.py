"""Stacks as faulthandler wrote them in two-node runs: which rank is not where the others are."""

from slurm_resilience.watch.stacks import odd_ones

WAITING = """Thread 0x00007f3c2a7fc6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/usr/lib/python3.11/threading.py", line 622 in wait

Current thread 0x00007f3c4e0b1040 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/autograd/graph.py", line 865 in _engine_run_backward
  File "/venv/lib/python3.11/site-packages/torch/autograd/__init__.py", line 364 in backward
  File "/venv/lib/python3.11/site-packages/torch/_tensor.py", line 630 in backward
  File "/home/me/train.py", line 61 in train_step
  File "/home/me/train.py", line 90 in <module>
"""
READING = """Current thread 0x00007f0ffb0b1040 (most recent call first):
  File "/home/me/data.py", line 17 in read
  File "/home/me/train.py", line 58 in train_step
  File "/home/me/train.py", line 90 in <module>
"""


def at(line: int) -> str:
    return f"""Current thread 0x00007f0ffb0b1040 (most recent call first):
  File "/home/me/train.py", line {line} in train_step
  File "/home/me/train.py", line 90 in <module>
"""


def test_the_rank_outside_the_collective_is_the_odd_one() -> None:
    """Of two ranks, the one that does not wait for its peer."""
    assert odd_ones({0: WAITING, 1: READING}) == {1: "/home/me/data.py:17 in read"}


def test_the_few_that_stand_elsewhere_are_the_odd_ones() -> None:
    """On a GPU nobody is seen to wait: ranks stand at the line that reads a result."""
    assert odd_ones({0: at(70), 1: at(70), 2: at(62), 3: at(70)}) == {
        2: "/home/me/train.py:62 in train_step"
    }


def test_nobody_is_odd_where_all_wait() -> None:
    """The culprit is not among those that answered."""
    assert odd_ones({0: WAITING, 1: WAITING}) == {}


def test_nobody_is_odd_without_a_majority() -> None:
    """Stages of a pipeline all stand at different lines."""
    assert odd_ones({0: at(1), 1: at(2), 2: at(3), 3: at(4)}) == {}


def test_text_that_is_no_stack_is_left_out() -> None:
    """A rank that wrote nothing, or nonsense, is not judged by it."""
    assert odd_ones({0: WAITING, 1: "", 2: "x" * 1000}) == {}
