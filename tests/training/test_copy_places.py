"""Where copies are to lie: a name that was mistyped is no place without copies."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.store import Store
from slurm_resilience.cli import main
from slurm_resilience.errors import CheckpointCopyError
from slurm_resilience.training import Checkpoints, Run
from tests.training.s3_server import S3, answers
from tests.training.three_saves import saved


@pytest.fixture
def s3(s3: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """As s3fs finds it."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3


def no_bucket(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A letter too many."""
    request.getfixturevalue("s3")
    return f"s3://bucket2/{tmp_path.name}", "no bucket bucket2"


def no_folder(_: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A mount that is not there."""
    return f"file://{tmp_path}/mount/copies", f"{tmp_path}/mount does not exist"


def a_file(_: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """No folder."""
    (tmp_path / "copies").write_text("")
    return f"file://{tmp_path}/copies", "is a file"


def an_object(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """No folder either."""
    request.getfixturevalue("s3")
    Store("s3://bucket").write(tmp_path.name, iter([b"something"]))
    return f"s3://bucket/{tmp_path.name}", "is a file"


@pytest.fixture(params=[no_bucket, no_folder, a_file, an_object])
def wrong(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A URL, and what is wrong with it."""
    make: Callable[[pytest.FixtureRequest, Path], tuple[str, str]] = request.param
    return make(request, tmp_path)


@pytest.mark.parametrize("what", ["copy {dir} {url}", "copies {url}", "fetch {url} {dir}"])
def test_a_place_that_cannot_be_one_is_exit_status_2(
    wrong: tuple[str, str], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names it; nothing is made."""
    directory = saved(tmp_path / "c")
    before = sorted(tmp_path.rglob("*"))
    url, why = wrong

    status = main(["checkpoint", *what.format(dir=directory, url=url).split()])

    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert url in err
    assert why in err
    assert sorted(tmp_path.rglob("*")) == before


def test_no_bucket_is_ever_made(s3: S3, tmp_path: Path) -> None:
    """Also not by who writes without a look before."""
    store = Store(f"s3://bucket2/{tmp_path.name}")

    with pytest.raises(CheckpointCopyError, match="bucket2"):
        store.write("x", iter([b"y"]))

    assert not answers(f"{s3.address}/bucket2", "HEAD")


def test_a_run_does_not_begin_anew_where_the_place_cannot_be_one(
    wrong: tuple[str, str], tmp_path: Path
) -> None:
    """There may be weeks of training where it was meant to look."""
    url, why = wrong
    run = Run(checkpoints=Checkpoints(tmp_path / "c", copies=url), state={"n": 1})

    with pytest.raises(CheckpointCopyError, match=why):
        run.restore()
    run.close()


def test_the_last_folder_is_made_also_for_a_part(tmp_path: Path) -> None:
    """What a node copies lies in a folder of its own beneath."""
    for url in (f"file://{tmp_path}/copies", f"file://{tmp_path}/parts/part-00008"):
        store = Store(url)
        assert store.names() == []
        store.write("x", iter([b"y"]))
        assert store.names() == ["x"]


def test_copies_are_listed_with_date_and_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `list` does; the name is last, for `fetch --name`."""
    url = f"file://{tmp_path}/copies"
    assert main(["checkpoint", "copy", str(saved(tmp_path / "c")), url]) == 0
    name = capsys.readouterr().out.strip().rpartition("/")[2]
    main(["checkpoint", "list", str(tmp_path / "c")])
    listed = capsys.readouterr().out.splitlines()[:2]

    assert main(["checkpoint", "copies", url]) == 0

    header, line = capsys.readouterr().out.splitlines()
    assert header == listed[0].replace("STATE", "NAME")
    assert line == listed[1].replace("whole", name)
