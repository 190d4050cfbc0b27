"""Reading logs from disk: attempts, formats, sizes, and what is no text at all."""

import resource
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_resilience.diagnosis.findings import Diagnosis
from slurm_resilience.diagnosis.policy import decide
from slurm_resilience.diagnosis.sources import left_in
from slurm_resilience.errors import UsageError
from slurm_resilience.slurm.outputs import outputs_of

ECC = b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
QUOTA = b"OSError: [Errno 122] Disk quota exceeded\n"
REQUEUED = b"slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-12-01T00:55:55 DUE TO JOB REQUEUE ***\n"
TORCHRUN = (
    b"W1201 03:45:11.373000 31095 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment"
    b" variable for each process to be 1 in default\n"
)
PLAIN = b"".join(b"loading shard %d\n" % number for number in range(60))


def steps(first: int, last: int) -> bytes:
    return b"".join(b"step %d loss 0.5\n" % step for step in range(first, last))


def diagnosed(directory: Path, *logs: bytes) -> Diagnosis:
    paths = []
    for number, log in enumerate(logs):
        path = directory / f"{number}.log"
        path.write_bytes(log)
        paths.append(path)
    return decide(left_in(paths))


@pytest.mark.parametrize(
    "log",
    [
        TORCHRUN + steps(0, 50) + ECC + REQUEUED + TORCHRUN + steps(50, 60) + QUOTA,
        TORCHRUN + steps(0, 50) + ECC + TORCHRUN + QUOTA,
        TORCHRUN + steps(0, 50) + ECC + REQUEUED + TORCHRUN + QUOTA,
        steps(0, 50) + ECC + REQUEUED + PLAIN + QUOTA,
        b"slurm-resilience: attempt 0 of job 41 on n1,n2: torchrun train.py\n"
        + ECC
        + b"slurm-resilience: attempt 1 of job 41 on n1,n3: torchrun train.py\n"
        + QUOTA,
        steps(0, 50) + ECC + REQUEUED + TORCHRUN + steps(0, 400_000) + QUOTA,
    ],
    ids=[
        "requeued",
        "only torchrun's banner",
        "short",
        "no banner",
        "our own line",
        "blocks apart",
    ],
)
def test_of_an_appended_file_only_the_last_attempt_counts(tmp_path: Path, log: bytes) -> None:
    """What ended an earlier attempt is not what ended this one."""
    assert diagnosed(tmp_path, log).cause == "quota"


def test_a_second_node_that_starts_late_begins_no_new_attempt(tmp_path: Path) -> None:
    """Each node's torchrun prints the same banner; the first node's fault is not lost."""
    assert diagnosed(tmp_path, TORCHRUN + ECC + TORCHRUN + steps(0, 3)).cause == "cuda-ecc"


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ((steps(0, 20) + ECC).replace(b"\n", b"\r\n"), 21),
        (b"\x1b[31m[rank3]:\x1b[0m CUDA error: \x1b[1;31muncorrectable ECC error\x1b[0m\n", 1),
        (b"\r 3%|#  | 3/100 [00:01<00:05, 3.2it/s]" * 50 + ECC, 1),
        (b"\r\x1b[K 3%|#  | 3/100" * 50 + b"\r" + ECC, 1),
        (steps(0, 20) + b"\0" * 5_000_000 + ECC.replace(b"ECC", b"E\0CC"), 21),
        (b"\xff\xfe\xc3( step 3\n\xff" + ECC, 2),
        (b"x" * 12_000_000 + b" " + ECC.strip() + b" " + b"y" * 12_000_000, 1),
        (ECC.strip(), 1),
    ],
    ids=["CRLF", "colours", "progress bar", "own line in a bar", "NULs", "no UTF-8", "one long line", "no newline"],
)  # fmt: skip
def test_a_fault_is_found_in_whatever_stands_around_it(
    tmp_path: Path, log: bytes, line: int
) -> None:
    """Terminals, file systems and loggers leave much beside text."""
    diagnosis = diagnosed(tmp_path, log)

    assert diagnosis.cause == "cuda-ecc"
    assert diagnosis.evidence[0].line == line
    assert len(diagnosis.evidence[0].text) < 1000


def test_a_rare_line_is_found_among_many_that_look_alike(tmp_path: Path) -> None:
    """Metrics called `error` on every line, and lines that differ from it only in a number."""
    noise = b"".join(
        b"step %d error: 0.%d, failed [Errno 2] ratio 0\n" % (n, n) for n in range(50_000)
    )
    said = b"step 7 error: 0.7, failed [Errno 28] ratio 0\n"

    assert diagnosed(tmp_path, noise + ECC + noise[:200]).cause == "cuda-ecc"
    assert diagnosed(tmp_path, noise[:20_000] + said).cause == "disk-full"


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.sampled_from([ECC, QUOTA, REQUEUED, TORCHRUN, b"\n", b"\r", b"[rank0]: Traceback (most recent call last):\n"]),
        ),
        max_size=20,
    )
)  # fmt: skip
def test_no_bytes_are_too_strange(tmp_path: Path, parts: list[bytes]) -> None:
    """Whatever a file holds, there is a verdict."""
    assert diagnosed(tmp_path, b"".join(parts)).class_


@pytest.mark.parametrize("log", [b"", b"\n\n", b"hello\n", b"\x7fELF\x02\x01\x01\0\0\0"])
def test_where_nothing_tells_it_is_unknown(tmp_path: Path, log: bytes) -> None:
    """No guess."""
    diagnosis = diagnosed(tmp_path, log)

    assert (diagnosis.class_, diagnosis.suspects, diagnosis.confidence) == (
        "unknown",
        (),
        "low",
    )


def test_a_large_file_is_read_in_little_memory(tmp_path: Path) -> None:
    """300 MB, of which the last attempt is a tenth; the bounds are generous."""
    attempt = TORCHRUN + steps(0, 1_500_000)
    with (tmp_path / "big.log").open("wb") as file:
        for _ in range(9):
            file.write(attempt + ECC + REQUEUED)
        file.write(attempt + QUOTA)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()

    diagnosis = decide(left_in([tmp_path / "big.log"]))

    assert diagnosis.cause == "quota"
    assert time.process_time() - started < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_huge_file_is_not_read_from_its_beginning(tmp_path: Path) -> None:
    """20 GB, most of it a hole: only the last attempt, and no line number that nobody counted."""
    with (tmp_path / "huge.log").open("wb") as file:
        file.seek(20 << 30)
        file.write(b"\n" + ECC + REQUEUED + TORCHRUN + steps(0, 60) + QUOTA)
    started = time.process_time()

    diagnosis = decide(left_in([tmp_path / "huge.log"]))

    assert diagnosis.cause == "quota"
    assert diagnosis.evidence[0].line is None
    assert time.process_time() - started < 10


def test_ranks_logs_and_error_files_of_torchrun_are_one_attempt(tmp_path: Path) -> None:
    """The folder of `--log-dir`: its last attempt, who failed first, on which rank."""
    for attempt, text in ((0, QUOTA), (1, b"")):
        for rank in (0, 1):
            place = tmp_path / "none_4711" / f"attempt_{attempt}" / str(rank)
            place.mkdir(parents=True)
            (place / "stderr.log").write_bytes(text)
    (place / "error.json").write_text(
        '{"message": {"message": "ValueError: no such split: trian", "extraInfo": {"py_callstack":'
        ' "Traceback (most recent call last):\\n  File \\"/home/me/train.py\\", line 7, in main\\n'
        '    raise ValueError(split)\\nValueError: no such split: trian\\n", "timestamp": "1764554711"}}}'
    )

    diagnosis = decide(left_in([tmp_path]))

    assert (diagnosis.class_, diagnosis.retry) == ("user-error", "stop")
    assert "/home/me/train.py:7 in main" in diagnosis.advice


def test_a_ranks_own_log_names_the_local_rank(tmp_path: Path) -> None:
    """Lines in it need not say whose they are."""
    for rank, text in ((0, b"step 3\n"), (5, ECC)):
        place = tmp_path / "attempt_0" / str(rank)
        place.mkdir(parents=True)
        (place / "stderr.log").write_bytes(text)

    diagnosis = decide(left_in([tmp_path]))

    assert [(one.rank, one.local_rank) for one in diagnosis.suspects] == [(None, 5)]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: None, "No such file"),
        (lambda path: path.mkdir(), "no log in there"),
        (lambda path: path.symlink_to("/dev/null"), "not a plain file"),
    ],
    ids=["missing", "empty folder", "device"],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, make: object, said: str) -> None:
    """One line with the path, and what to give instead."""
    path = tmp_path / "x.log"
    make(path)  # type: ignore[operator]

    with pytest.raises(UsageError, match=f"{path}: .*{said}"):
        left_in([path])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"message": 3}', "\x00"])
def test_an_error_file_that_is_none_is_passed_over_in_a_folder(
    tmp_path: Path, text: str
) -> None:
    """A rank that died while writing it costs its own words only."""
    (tmp_path / "error.json").write_text(text)
    (tmp_path / "stderr.log").write_bytes(QUOTA)

    assert decide(left_in([tmp_path])).cause == "quota"


@pytest.mark.parametrize(
    ("pattern", "job", "names"),
    [
        ("slurm-%j.out", "12", ["slurm-12.out"]),
        ("%x-%j.out", "12", ["slurm-12.out", "train-12.out"]),
        ("%5j.log", "12", ["00012.log"]),
        ("%A_%a.out", "12_3", ["12_3.out"]),
        ("all.out", "12", ["all.out"]),
        ("%x.out", "12", []),
        ("100%%.out", "12", ["100%.out"]),
        ("[12].out", "12", ["[12].out"]),
        ("slurm-%j.out", "13", []),
    ],
)
def test_a_jobs_output_is_found_by_its_pattern(
    tmp_path: Path, pattern: str, job: str, names: list[str]
) -> None:
    """Only files that are this job's."""
    for name in (
        "slurm-12.out", "train-12.out", "train-13.out", "00012.log", "12_3.out", "all.out",
        "train.out", "100%.out", "[12].out", "1.out",
    ):  # fmt: skip
        (tmp_path / name).write_text("x")

    found = [path.name for path in outputs_of(f"{tmp_path}/{pattern}", job)]

    assert found == names


def test_a_folder_follows_no_link(tmp_path: Path) -> None:
    """What lies elsewhere is somebody else's."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "elsewhere.log").write_bytes(ECC)
    (tmp_path / "logs" / "link.log").symlink_to(tmp_path / "elsewhere.log")
    (tmp_path / "logs" / "own.log").write_bytes(QUOTA)

    assert decide(left_in([tmp_path / "logs"])).cause == "quota"
