"""`checkpoint prune` and quarantine: what goes, what never does."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.keep import delete, remove_unfinished
from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.checkpoint_files.owner import Claim, owner
from slurm_resilience.checkpoint_files.pruning import planned, take_out
from slurm_resilience.checkpoint_files.quarantine import MOST, put_aside, set_aside, thin_out
from slurm_resilience.cli import main
from tests.whole import checkpoint, swap


def damaged(path: Path) -> Path:
    """One bit of it is not as it was written."""
    file = path / "rank-00000.tensors"
    data = file.read_bytes()
    file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    return path


def steps(directory: Path) -> list[int]:
    """What is there."""
    return sorted(int(path.name[5:]) for path in directory.glob("step-*"))


def pruned(directory: Path, *arguments: str) -> int:
    """The exit status of the command."""
    return main(["checkpoint", "prune", str(directory), *arguments])


def make_sound(directory: Path) -> None:
    """Five sound ones."""
    for step in (1, 2, 3, 4, 5):
        checkpoint(directory, step)


def make_newest_damaged(directory: Path) -> None:
    """The two newest of five are damaged."""
    make_sound(directory)
    damaged(directory / directory_name(5))
    damaged(directory / directory_name(4))


def make_poisoned(directory: Path) -> None:
    """The three newest of five hold a NaN."""
    for step in (1, 2):
        checkpoint(directory, step)
    for step in (3, 4, 5):
        checkpoint(directory, step, poison="loss is nan")


def make_all_damaged(directory: Path) -> None:
    """None of five verifies."""
    make_sound(directory)
    for path in directory.glob("step-*"):
        damaged(path)


def make_without_manifest(directory: Path) -> None:
    """The newest of five has lost its manifest."""
    make_sound(directory)
    (directory / directory_name(5) / manifests.NAME).unlink()


@pytest.mark.parametrize(
    ("make", "keep", "left"),
    [
        (make_sound, 2, [4, 5]),
        (make_sound, 5, [1, 2, 3, 4, 5]),
        (make_sound, 9, [1, 2, 3, 4, 5]),
        (make_newest_damaged, 1, [3, 4, 5]),
        (make_newest_damaged, 3, [1, 2, 3, 4, 5]),
        (make_poisoned, 1, [2, 5]),
        (make_poisoned, 4, [2, 3, 4, 5]),
        (make_all_damaged, 1, [1, 2, 3, 4, 5]),
        (make_without_manifest, 1, [4, 5]),
    ],
)
def test_what_verifies_newest_stays(
    tmp_path: Path, make: Callable[[Path], None], keep: int, left: list[int]
) -> None:
    """What does not verify neither counts nor goes; the newest without poison always stays."""
    make(tmp_path)

    assert pruned(tmp_path, "--keep", str(keep)) == 0

    assert steps(tmp_path) == left


def test_a_dry_run_says_what_would_go_and_leaves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document is the same as of the real one, but for one word."""
    make_newest_damaged(tmp_path)

    pruned(tmp_path, "--keep", "1", "--dry-run", "--json")
    would = json.loads(capsys.readouterr().out)
    before = steps(tmp_path)
    pruned(tmp_path, "--keep", "1", "--json")
    did = json.loads(capsys.readouterr().out)

    assert before == [1, 2, 3, 4, 5]
    assert would == {**did, "dry_run": True}
    assert [Path(path).name for path in did["deleted"]] == [
        directory_name(1),
        directory_name(2),
    ]
    assert len(did["unsound"]) == 2


def test_what_was_never_finished_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A save, a removal, a probe that were killed; nobody else deletes them once a job has ended."""
    make_sound(tmp_path)
    (tmp_path / ".saving-step-000000006-0a").mkdir()
    (tmp_path / ".saving-step-000000006-0a" / "rank-00000.tensors").write_bytes(b"half")
    (tmp_path / ".removing-step-000000000-1").mkdir()
    (tmp_path / ".probe-0a-0").write_bytes(b"")

    assert pruned(tmp_path, "--keep", "5", "--dry-run") == 0
    assert len(list(tmp_path.glob(".[spr]*"))) == 3
    assert pruned(tmp_path, "--keep", "5") == 0

    assert not list(tmp_path.glob(".[spr]*"))
    assert capsys.readouterr().err.count("was never finished") == 3
    assert steps(tmp_path) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("command", [["prune", "--keep", "1"], ["verify", "--quarantine"]])
def test_nothing_is_touched_while_a_job_writes_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Exit status 2, and the line names the job."""
    make_newest_damaged(tmp_path)
    claim = Claim(tmp_path, owner({"SLURM_JOB_ID": "7"}, node="n1", pid=1))

    status = main(["checkpoint", *command, str(tmp_path)])

    claim.release()
    assert status == 2
    assert "in use by job 7" in capsys.readouterr().err
    assert steps(tmp_path) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("keep", ["0", "-1", "all", "1.5", "", "9" * 5000])
def test_a_number_that_makes_no_sense_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keep: str
) -> None:
    """`--keep 0` would delete everything."""
    make_sound(tmp_path)

    with pytest.raises(SystemExit) as ended:
        pruned(tmp_path, f"--keep={keep}")

    assert ended.value.code == 2
    assert len(capsys.readouterr().err) < 800
    assert len(steps(tmp_path)) == 5


@pytest.mark.parametrize("command", [["prune", "--keep", "1"], ["verify", "--quarantine"]])
def test_one_checkpoint_is_no_directory_of_them(tmp_path: Path, command: list[str]) -> None:
    """Nothing is written into it."""
    path = checkpoint(tmp_path, 1)
    before = sorted(path.iterdir())

    assert main(["checkpoint", *command, str(path)]) == 2

    assert sorted(path.iterdir()) == before


def test_verify_moves_the_damaged_where_it_is_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`list` then shows them, with the reason."""
    make_newest_damaged(tmp_path)

    assert main(["checkpoint", "verify", "--quarantine", str(tmp_path)]) == 1
    capsys.readouterr()
    assert main(["checkpoint", "list", str(tmp_path)]) == 0

    out = capsys.readouterr().out
    assert steps(tmp_path) == [1, 2, 3]
    assert out.count("in quarantine") == 2
    assert "rank-00000.tensors is damaged: its digest differs" in out
    assert main(["checkpoint", "path", str(tmp_path / "quarantine")]) == 1


def bytes_read() -> int:
    """By this process so far, from the cache or not (proc(5): rchar)."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_what_is_sound_is_read_once_to_put_the_damaged_aside(tmp_path: Path) -> None:
    """There may be terabytes of it; the lock is not held meanwhile."""
    size_bytes = 8 << 20
    checkpoint(tmp_path, 1, content=bytes(size_bytes))
    damaged(checkpoint(tmp_path, 2))
    before = bytes_read()

    assert main(["checkpoint", "verify", "--quarantine", str(tmp_path)]) == 1

    assert size_bytes <= bytes_read() - before < 2 * size_bytes
    assert steps(tmp_path) == [1]


def test_quarantine_is_bounded(tmp_path: Path) -> None:
    """Only the latest few stay: each takes the room of a sound one."""
    for step in range(MOST + 4):
        set_aside(damaged(checkpoint(tmp_path, step)), "damaged")
        thin_out(tmp_path)

    assert len(put_aside(tmp_path)) == MOST
    assert len(list((tmp_path / "quarantine").iterdir())) == 2 * MOST
    assert put_aside(tmp_path)[0][0].name == f"{directory_name(MOST + 3)}-1"


def test_quarantine_keeps_the_latest_steps(tmp_path: Path) -> None:
    """A walk back puts the newest aside first: it is not the first to go."""
    for step in range(MOST + 4, 0, -1):
        set_aside(damaged(checkpoint(tmp_path, step)), "damaged")
        thin_out(tmp_path)

    kept = {path.name for path, _ in put_aside(tmp_path)}
    assert kept == {f"{directory_name(step)}-1" for step in range(5, MOST + 5)}


def test_quarantine_is_bounded_for_what_is_poisoned(tmp_path: Path) -> None:
    """It verifies, and is still nothing to go on from."""
    for step in range(MOST + 4):
        set_aside(checkpoint(tmp_path, step, poison="the loss is NaN"), "the loss is NaN")
    thin_out(tmp_path)

    assert len(put_aside(tmp_path)) == MOST


def test_what_turns_out_to_be_sound_never_leaves_quarantine(tmp_path: Path) -> None:
    """It was moved by mistake, by a node with bad memory for one; a person can move it back."""
    sound = set_aside(checkpoint(tmp_path, 0), "damaged, said a node with bad memory")
    for step in range(1, MOST + 4):
        set_aside(damaged(checkpoint(tmp_path, step)), "damaged")
    thin_out(tmp_path)

    assert sound.is_dir()
    assert put_aside(tmp_path)[-1][1].why == "damaged, said a node with bad memory"


def test_what_may_make_sense_to_another_version_never_leaves_quarantine(
    tmp_path: Path,
) -> None:
    """Every digest is right: it is as it was written."""
    odd = checkpoint(tmp_path, 0)
    swap(odd / manifests.INDEX, b'{"tensors":{},"more":1}')
    aside = set_aside(odd, "index.json: an unknown field")
    for step in range(1, MOST + 1):
        set_aside(damaged(checkpoint(tmp_path, step)), "damaged")

    assert thin_out(tmp_path) == {aside}
    assert aside.is_dir()


def test_nothing_is_read_to_put_one_aside_nor_twice_to_thin_out(tmp_path: Path) -> None:
    """All ranks wait while one is put aside, and a large one takes minutes to read."""
    size_bytes = 8 << 20
    for step in range(MOST + 1):
        set_aside(checkpoint(tmp_path, step, content=bytes(size_bytes)), "by mistake")
    left = thin_out(tmp_path)
    before = bytes_read()

    set_aside(damaged(checkpoint(tmp_path, 9)), "damaged")
    left = thin_out(tmp_path, known={*left, *(path for path, _ in put_aside(tmp_path))})

    assert bytes_read() - before < size_bytes
    assert len(left) == 2


def test_several_may_thin_out_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A job that has just begun, and `verify --quarantine` whose lock it waited for."""
    for step in range(40):
        set_aside(damaged(checkpoint(tmp_path, step)), "damaged")

    with ThreadPoolExecutor(4) as several:
        list(several.map(thin_out, [tmp_path] * 4))

    assert len(put_aside(tmp_path)) == MOST
    assert len(list((tmp_path / "quarantine").iterdir())) == 2 * MOST
    assert caplog.text == ""


@pytest.fixture
def at_first_deletion() -> Iterator[list[Callable[[], object]]]:
    """What is put into it is done when a folder begins to be deleted."""
    todo: list[Callable[[], object]] = []

    def look(event: str, _: tuple[object, ...]) -> None:
        if event == "shutil.rmtree" and todo:
            todo.pop()()

    sys.addaudithook(look)  # stays, and does nothing once the list is empty
    yield todo
    todo.clear()


def test_a_job_can_begin_while_prune_deletes(
    tmp_path: Path, at_first_deletion: list[Callable[[], object]]
) -> None:
    """It deletes the same folders meanwhile, as each new owner does; neither stumbles."""
    make_sound(tmp_path)
    begun: list[Claim] = []

    def begin() -> None:
        me = owner({"SLURM_JOB_ID": "7"}, node="n1", pid=1)
        begun.append(Claim(tmp_path, me, wait_s=0.0))
        assert len(remove_unfinished(tmp_path)) == 4

    at_first_deletion.append(begin)

    assert pruned(tmp_path, "--keep", "1") == 0

    begun[0].confirm()
    begun[0].release()
    assert steps(tmp_path) == [5]
    assert not list(tmp_path.glob(".removing-*"))


DYING = """
import os, sys
from pathlib import Path
from slurm_resilience.checkpoint_files.owner import Claim, owner
from slurm_resilience.checkpoint_files.quarantine import set_aside
sys.addaudithook(lambda event, arguments: event == "os.rename" and os._exit(0))
directory = Path(sys.argv[1])
if sys.argv[2] == "signs":
    Claim(directory, owner({}, node="n1", pid=1))
else:
    set_aside(next(directory.glob("step-*")), "damaged")
os._exit(1)
"""


@pytest.mark.parametrize("dying", ["signs", "sets aside"])
def test_files_that_were_never_put_in_place_go_once_nobody_can_be_writing_them(
    tmp_path: Path, dying: str
) -> None:
    """Who takes over from a lost node signs without a lock; other files are none of ours."""
    checkpoint(tmp_path, 1)
    subprocess.run([sys.executable, "-c", DYING, str(tmp_path), dying], check=True)
    (left,) = tmp_path.rglob(".*.new")
    users = tmp_path / ".notes.json.new"
    users.touch()
    os.utime(users, (1.0, 1.0))

    assert remove_unfinished(tmp_path) == []
    os.utime(left, (1.0, 1.0))

    assert remove_unfinished(tmp_path) == [left]
    assert not left.exists()
    assert users.exists()


def test_two_who_delete_the_same_folder_do_not_stumble(tmp_path: Path) -> None:
    """Whoever is second with a file goes on with the rest."""
    folders = [tmp_path / str(number) for number in range(20)]
    for folder in folders:
        folder.mkdir()
        for number in range(100):
            (folder / str(number)).touch()

    with ThreadPoolExecutor(4) as several:
        list(several.map(delete, [folder for folder in folders for _ in range(4)]))

    assert list(tmp_path.iterdir()) == []


def test_what_changed_after_it_was_read_is_planned_anew(tmp_path: Path) -> None:
    """What goes, goes because newer ones are there: one of these went in between."""
    make_sound(tmp_path)
    pruning = planned(tmp_path, keep=2)
    damaged(tmp_path / directory_name(5)).joinpath(manifests.NAME).unlink()

    pruning, taken_out = take_out(tmp_path, keep=2, pruning=pruning)

    assert len(taken_out) == len(pruning.going) == 2
    assert steps(tmp_path) == [3, 4, 5]


@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"[1]", b"\xff" * (1 << 17)])
def test_a_reason_that_cannot_be_read_is_said_to_be_unknown(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoint is listed all the same."""
    aside = set_aside(damaged(checkpoint(tmp_path, 1)), "damaged")
    reason = aside.with_name(f"{aside.name}.json")
    reason.unlink() if content is None else reason.write_bytes(content)

    main(["checkpoint", "list", str(tmp_path)])

    assert "the reason was not recorded" in capsys.readouterr().out


def test_a_reason_cannot_speak_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may hold what somebody else wrote."""
    aside = set_aside(damaged(checkpoint(tmp_path, 1)), "x")
    reason = {"why": "\x1b[2J two\nlines", "since": 1.0}
    aside.with_name(f"{aside.name}.json").write_bytes(msgspec.json.encode(reason))

    main(["checkpoint", "list", str(tmp_path)])

    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2


def test_a_quarantine_that_is_a_link_is_not_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An administrator who tidies up writes nothing where a user's link leads."""
    directory, other = tmp_path / "c", tmp_path / "other"
    directory.mkdir()
    other.mkdir()
    damaged(checkpoint(directory, 1))
    (directory / "quarantine").symlink_to(other)

    status = main(["checkpoint", "verify", "--quarantine", str(directory)])

    assert status == 2
    assert "cannot be put aside" in capsys.readouterr().err
    assert list(other.iterdir()) == []
    assert steps(directory) == [1]
