"""`slurm-resilience plan`, and what it takes from earlier attempts."""

import json
import sqlite3
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.cli import main
from slurm_resilience.incident import Class, Heartbeats, Incident, Kind
from slurm_resilience.ledger import Ledger
from slurm_resilience.planning.measured import of_checkpoints, of_job
from slurm_resilience.slurm.values import Job
from slurm_resilience.story import Attempt, Story

ISSUE = [
    "--params",
    "7e9",
    "--optimizer",
    "adamw",
    "--nodes",
    "8",
    "--gpus-per-node",
    "8",
    "--write-gbps",
    "5",
    "--mtbf",
    "8h",
]
GIB = 1 << 30


def test_a_table_that_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    """Every row with where it comes from, and the lines for script and training."""
    assert main(["plan", *ISSUE, "--step-s", "4"]) == 0

    said = capsys.readouterr().out
    assert "| checkpoint | 98 GB | 14 bytes a parameter (adamw, mixed) |" in said
    assert "| save every | 5.8 min | Young-Daly |" in said
    assert "    #SBATCH --signal=B:USR2@60\n" in said
    assert 'Checkpoints("…", every_steps=86, every_minutes=5.7, keep=3)' in said
    assert "timedelta(seconds=600)" in said


def test_the_documents_example_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    """What docs/plan.md shows is what comes out."""
    main(["plan", *ISSUE, "--step-s", "4"])

    page = (Path(__file__).parents[2] / "docs" / "plan.md").read_text(encoding="utf-8")
    assert f"slurm-resilience plan {' '.join(ISSUE)} --step-s 4" in page
    assert capsys.readouterr().out in page


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """With what was asked, so that it can be made again."""
    assert main(["plan", *ISSUE, "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["asked"]["parameters"] == 7e9
    assert document["plan"]["checkpoint_bytes"]["value"] == 98e9
    assert document["plan"]["interval_steps"] is None


def test_nodes_fail_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred nodes of a hundred days each fail once a day."""
    arguments = [
        "--params",
        "7B",
        "--nodes",
        "100",
        "--gpus-per-node",
        "8",
        "--write-gbps",
        "5",
        "--node-mtbf",
        "100d",
    ]

    assert main(["plan", *arguments]) == 0

    assert "| mean time between failures | 24.0 h |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--params 7e9 --gpus-per-node 8", "say --nodes"),
        ("--params 7e9 --nodes 8", "say --gpus-per-node"),
        ("--nodes 8 --gpus-per-node 8 --mtbf 8h", "say --params"),
        ("--params 7e9 --nodes 8 --gpus-per-node 8 --mtbf 8h", "say --write-gbps"),
        ("--params 7e9 --nodes 8 --gpus-per-node 8 --write-gbps 5", "say --mtbf"),
        ("--nodes 8 --gpus-per-node 8 --checkpoints /nosuch", "/nosuch: No such file"),
        ("--nodes 1 --gpus-per-node 1 --mtbf 1h --node-mtbf 1h", "not both"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named_in_one_line(
    arguments: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2."""
    assert main(["plan", *arguments.split()]) == 2

    out, err = capsys.readouterr()
    assert not out
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--params", "seven"), ("--params", "1e99"), ("--params", "0"), ("--nodes", "0"), ("--nodes", "1.5"),
        ("--nodes", "9" * 5000), ("--mtbf", "8"), ("--mtbf", "0h"), ("--mtbf", "nanh"), ("--mtbf", "9999999d"),
        ("--write-gbps", "nan"), ("--write-gbps", "-1"), ("--slowdown", "2"), ("--optimizer", "adem"),
        ("--write-gbps", "1_000"), ("--write-gbps", "\u0667"), ("--write-gbps", "9" * 5000),
        ("--write-gbps", " 7"), ("--slowdown", "0_1"), ("--gpu-memory-gib", "1e-320"), ("--params", "7"),
        ("--params", ""), ("--mtbf", "h"), ("--mtbf", "1_0h"), ("--step-s", "0x10"), ("--checkpoints", ""),
        ("--params", "1.e9999"), ("--optimizer", "x" * 5000), ("--params", "\x1b[31m"),
    ],
    ids=lambda value: ascii(value)[1:-1][:20],
)  # fmt: skip
def test_a_slip_of_the_keyboard_is_refused(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its option, and with an example of what is meant."""
    with pytest.raises(SystemExit) as ended:
        main(["plan", *ISSUE, option, value])

    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"argument {option}: " in said
    assert said.count("\n") == 1
    assert len(said) < 400
    assert "\x1b" not in said


def test_a_forgotten_unit_is_asked_after(capsys: pytest.CaptureFixture[str]) -> None:
    """Seven parameters would make a plan that looks fine."""
    with pytest.raises(SystemExit):
        main(["plan", *ISSUE, "--params", "7"])

    assert "7: that few parameters have no model; 7B is meant?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "value", ["7e9", "7B", "7.e9", "7000M", "7000000000", "07E+9", ".007T"]
)
def test_a_number_is_taken_in_every_usual_form(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seven billion."""
    main(["plan", *ISSUE, "--params", value])

    assert "| checkpoint | 98 GB |" in capsys.readouterr().out


def test_one_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    """In words for people."""
    main(["plan", *ISSUE, "--nodes", "1", "--gpus-per-node", "1"])

    out = capsys.readouterr().out
    assert out.startswith("1 node x 1 GPU\n")
    assert "1.5 x 1 GPU of 80 GiB" in out
    assert "| 1 GPU |" in out


def test_nothing_is_saved_within_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    """A step of a quarter of an hour is the shortest interval there is."""
    main(["plan", *ISSUE, "--mtbf", "1h", "--step-s", "900"])

    out = capsys.readouterr().out
    assert "| save every | 15.0 min | saves come between steps |" in out
    assert "| that is, steps | 1 |" in out
    assert "every_steps=1, every_minutes=15," in out


# ── measured ────────────────────────────────────────────────────────────────────────────────


def saved(directory: Path, step: int, *, at: float, took_s: float) -> None:
    names = (manifests.INDEX, manifests.tensors_name(0), manifests.values_name(0))
    files = {name: manifests.File(size_bytes=GIB, crc32=0) for name in names}
    manifest = manifests.Manifest(1, step, 1, saved_at=at, took_s=took_s, job="7", files=files)
    path = directory / f"step-{step:09d}"
    path.mkdir()
    (path / manifests.NAME).write_bytes(manifests.encoded(manifest))


def test_checkpoints_tell_size_and_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest one's size, the longest save, the usual step."""
    for step, at, took_s in ((100, 0.0, 9.0), (200, 200.0, 30.0), (300, 400.0, 8.0)):
        saved(tmp_path, step, at=at, took_s=took_s)

    told = of_checkpoints(tmp_path)

    assert (told.size_bytes, told.save_s, told.step_s) == (3 * GIB, 30.0, 2.0)
    arguments = f"--nodes 2 --gpus-per-node 8 --mtbf 2d --checkpoints {tmp_path}"
    assert main(["plan", *arguments.split()]) == 0
    assert "| a save takes | 30 s | measured: the longest there |" in capsys.readouterr().out


def test_an_empty_directory_tells_nothing(tmp_path: Path) -> None:
    """And says so."""
    told = of_checkpoints(tmp_path)

    assert told.size_bytes is None
    assert told.notes == (f"{tmp_path}: no checkpoint there",)


def incident(
    attempt: int, at: float, kind: Kind = "stall", class_: Class = "hardware"
) -> Attempt:
    return Attempt(
        attempt,
        Incident(
            "7", attempt, kind, class_, cause="x", reason="x", retry="same-nodes", detected_at=at,
            progressed_at=at - 20,
        ),
    )  # fmt: skip


RUNNING = Job(id="7", state="RUNNING", restarts=3, started_at=5000.0)
STORY = Story(
    RUNNING,
    attempts=(incident(0, 1000.0), incident(1, 3000.0, "notice"), incident(2, 4000.0, "crash")),
)


def ledger(path: Path) -> Path:
    kept = Ledger(path)
    for attempt, at in enumerate((100.0, 1030.0, 3050.0)):
        kept.saw_attempts([Job(id="7", state="RUNNING", restarts=attempt, started_at=at)])
    kept.close()
    return path


def test_attempts_tell_how_often_a_job_fails(tmp_path: Path) -> None:
    """A notice is no failure; the running attempt counts as far as it has come."""
    told = of_job(STORY, [ledger(tmp_path / "ledger.sqlite")], now=6000.0)

    assert told.failures == 2
    assert told.ran_s == 900 + 1970 + 950 + 1000
    assert told.mtbf_s == 2410.0
    assert told.away_s == (50.0 + 1020.0) / 2
    assert told.notes == ()


def beats(attempt: int, at: float, job: str = "7") -> Attempt:
    return Attempt(attempt, heartbeats=Heartbeats(job, attempt, at))


@pytest.mark.parametrize(
    ("silent", "failures", "ran_s"),
    [
        (beats(1, 3000.0), 3, 900 + 1970 + 950 + 1000),
        (Attempt(1), 2, 900 + 950 + 1000),
        (beats(1, 3000.0, job="6"), 2, 900 + 950 + 1000),
        (beats(3, 5900.0), 2, 900 + 950 + 1000),
    ],
    ids=["until its last summary", "when is not known", "another job's", "it is still running"],
)
def test_an_attempt_that_left_no_incident_has_failed(
    tmp_path: Path, silent: Attempt, failures: int, ran_s: float
) -> None:
    """The first node lost its power: nobody was left to write one."""
    attempts = (incident(0, 1000.0), silent, incident(2, 4000.0, "crash"))

    told = of_job(
        Story(RUNNING, attempts=attempts), [ledger(tmp_path / "l.sqlite")], now=6000.0
    )

    assert (told.failures, told.ran_s) == (failures, ran_s)
    assert told.away_s is not None
    assert told.away_s < 1100


def test_the_last_attempt_has_failed_where_its_supervisor_was_killed(tmp_path: Path) -> None:
    """And not where the job simply ended."""
    attempts = (beats(0, 1000.0),)
    kept = [ledger(tmp_path / "l.sqlite")]

    lost = of_job(Story(Job(id="7", state="NODE_FAIL"), attempts=attempts), kept, now=6000.0)
    done = of_job(Story(Job(id="7", state="COMPLETED"), attempts=attempts), kept, now=6000.0)

    assert (lost.failures, done.failures) == (1, 0)


def test_without_a_ledger_only_what_is_known_counts(tmp_path: Path) -> None:
    """When the earlier attempts began nobody tells: no guess is made of it."""
    told = of_job(STORY, [tmp_path / "none.sqlite"], now=6000.0)

    assert (told.failures, told.ran_s, told.mtbf_s) == (0, 1000.0, None)
    assert told.away_s == 1020.0
    assert not (tmp_path / "none.sqlite").exists()


def test_a_damaged_ledger_is_said_and_left(tmp_path: Path) -> None:
    """A reader moves nothing aside."""
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"no database" * 1000)

    told = of_job(STORY, [path], now=6000.0)

    assert "ledger" in told.notes[0]
    assert path.exists()


def test_a_ledger_in_use_can_be_read(tmp_path: Path) -> None:
    """The controller has it open all the time."""
    path = ledger(tmp_path / "ledger.sqlite")
    writer = sqlite3.connect(path)
    writer.execute("BEGIN IMMEDIATE")

    told = of_job(STORY, [path], now=6000.0)

    writer.rollback()
    writer.close()
    assert told.failures == 2
