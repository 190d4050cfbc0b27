"""Exceptions of the program's own, by what stands in a log: lines are as torch 2.13 prints them."""

from pathlib import Path

import pytest

from slurm_resilience.diagnosis.policy import decide
from slurm_resilience.diagnosis.sources import left_in
from slurm_resilience.diagnosis.traceback import is_source

AGAIN = [
    "RuntimeError: Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list.",
    "RuntimeError: stack expects each tensor to be equal size, but got [3, 4] at entry 0 and [3, 5] at entry 1",
    "RuntimeError: Input type (double) and bias type (float) should be the same",
    "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed).",
    "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor [2]]",
    "RuntimeError: expected m1 and m2 to have the same dtype, but got: c10::Half != float",
    "RuntimeError: Given groups=1, weight of size [4, 3, 3, 3], expected input[1, 1, 8, 8] to have 3 channels, but got 1 channels instead",
    "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.",
    "RuntimeError: input.size(-1) must be equal to input_size. Expected 3, got 5",
    "RuntimeError: Parent directory /path/to/run does not exist.",
    "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss.",
    "pytorch_lightning.utilities.exceptions.MisconfigurationException: ",
    "PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object at 0x7fd3aa7f1900>",
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for TrainConfig",
]
UNTOLD = [
    "RuntimeError: it did not work",
    "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "AssertionError",
]


@pytest.mark.parametrize("line", AGAIN, ids=lambda line: line[:50])
@pytest.mark.parametrize("before", ["", "[rank3]: "], ids=["alone", "of-a-rank"])
def test_what_would_be_raised_again_is_not_retried(
    tmp_path: Path, line: str, before: str
) -> None:
    """Also where nothing but the exception's last line is left."""
    log = tmp_path / "slurm-41.out"
    log.write_text(f"step 3 loss 0.5\n{before}{line}\n")

    diagnosis = decide(left_in([log]))

    assert (diagnosis.class_, diagnosis.retry) == ("user-error", "stop")
    assert line.strip() in diagnosis.evidence[0].text


@pytest.mark.parametrize("line", UNTOLD)
def test_a_bare_line_that_may_mean_anything_is_not_called_the_programs_error(
    tmp_path: Path, line: str
) -> None:
    """A launcher's complaint, or an exception without a word, tells no cause."""
    log = tmp_path / "slurm-41.out"
    log.write_text(f"{line}\n")

    assert decide(left_in([log])).class_ == "unknown"


def test_what_the_parent_raised_outranks_the_process_that_it_was_spawning(
    tmp_path: Path,
) -> None:
    """The child's `Ran out of input` is no damaged checkpoint."""
    log = tmp_path / "slurm-41.out"
    log.write_text(
        "  self = reduction.pickle.load(from_parent)\nEOFError: Ran out of input\n"
        "TypeError: cannot pickle 'generator' object\n"
    )

    assert decide(left_in([log])).class_ == "user-error"


def test_a_named_cause_outranks_a_signal_that_lightning_bypassed(tmp_path: Path) -> None:
    """Its loader workers are told to end at each epoch: that says nothing where anything else does."""
    log = tmp_path / "slurm-41.out"
    log.write_text("Bypassing signal SIGTERM\n" + "x\n" * 200_000 + "Segmentation fault\n")

    assert decide(left_in([log])).cause == "segfault"


@pytest.mark.parametrize(
    ("before", "line", "quoted"),
    [
        (['  File "/h/t.py", line 3, in f'], '    raise RuntimeError("No space left on device")', True),
        (['[rank0]:   File "/h/t.py", line 3, in f', "[rank1]: step"], '[rank0]:     assert not oom, "CUDA out of memory"', True),
        (['  File "/h/t.py", line 3, in f', "    raise Full(", "          ^^"], '        "No space left on device")', True),
        (['    File "/h/t.py", line 3, in f', "      raise Full()"], "  OSError: [Errno 28] No space left on device", False),
        (['  File "/h/t.py", line 3, in f', "    f()", "OSError: no"], "    No space left on device", False),
        (['  File "/h/t.py", line 3, in f', "    f()"], "OSError: [Errno 28] No space left on device", False),
        ([], "    No space left on device", False),
    ],
    ids=["source", "of a rank", "several lines", "indented error", "after the error", "error", "indented"],
)  # fmt: skip
def test_code_that_a_traceback_quotes_is_known(
    before: list[str], line: str, *, quoted: bool
) -> None:
    """What stands deeper than its frame is code, not what was said."""
    assert is_source(line, before) is quoted


def test_code_that_a_traceback_quotes_is_no_evidence(tmp_path: Path) -> None:
    """A program names in its code what it is afraid of."""
    log = tmp_path / "slurm-1.out"
    log.write_text(
        "Traceback (most recent call last):\n"
        '  File "/h/train.py", line 12, in step\n'
        '    if "out of memory" in str(e): raise\n'
        '  File "/h/train.py", line 18, in fwd\n'
        '    raise RuntimeError("No space left on device" if full else msg)\n'
        "RuntimeError: shape '[2, 3]' is invalid for input of size 7\n"
    )

    assert decide(left_in([log])).cause == "user-error"
