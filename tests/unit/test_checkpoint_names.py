"""What in a directory of checkpoints is ours, by its name, and what the user has put there."""

import errno
import sys
from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.keep import remove_unfinished
from slurm_resilience.checkpoint_files.listing import found
from tests.whole import checkpoint


@pytest.mark.parametrize(
    "name", ["step-000000005.best", "step-notes", "step-", "step-000000005-old", "latest"]
)
def test_what_a_user_calls_something_else_is_no_checkpoint(tmp_path: Path, name: str) -> None:
    """Neither listed nor called damaged, though it is one inside."""
    checkpoint(tmp_path, 6).rename(tmp_path / name)
    checkpoint(tmp_path, 5)

    assert [entry.path.name for entry in found(tmp_path)] == ["step-000000005"]


@pytest.mark.parametrize(
    "name", [".saving-for-later", ".removing-next-week", ".probe-", ".saving-notes.txt", ".git"]
)
def test_what_a_user_has_put_there_stays(tmp_path: Path, name: str) -> None:
    """However it begins."""
    (tmp_path / name).mkdir()

    assert not remove_unfinished(tmp_path)
    assert (tmp_path / name).is_dir()


@pytest.mark.parametrize(
    "name",
    [
        ".saving-step-000000005-0badcafe", ".saving-links-step-000000005-0badcafe",
        ".saving-copy-step-000000005-0badcafe", ".removing-step-000000005-0badcafe",
        ".removing-links-step-000000005-0badcafe-0badcafe", ".probe-0badcafe-12",
    ],
)  # fmt: skip
def test_what_was_cut_off_goes(tmp_path: Path, name: str) -> None:
    """Saves, links, fetches, removals, also of these; probes."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "rank-00000.tensors").touch()

    remove_unfinished(tmp_path)

    assert not list(tmp_path.iterdir())


def test_a_save_that_gets_its_name_while_a_later_attempt_tidies_up_is_left_whole(
    tmp_path: Path,
) -> None:
    """The earlier attempt was thought dead, and renames it just before it would be deleted."""
    unfinished, name = tmp_path / ".saving-step-000000005-0badcafe", tmp_path / "step-000000005"
    checkpoint(tmp_path, 5).rename(unfinished)
    looked: list[str] = []

    def look(event: str, arguments: tuple[object, ...]) -> None:
        is_it = event in {"os.rename", "shutil.rmtree"} and str(arguments[0]) == str(unfinished)
        if is_it and not looked:
            looked.append(event)
            unfinished.rename(name)

    sys.addaudithook(look)
    remove_unfinished(tmp_path)

    assert looked
    assert len(list(name.iterdir())) > 2


def test_what_cannot_be_deleted_is_in_nobodys_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said by name, and the rest goes."""
    stuck, other = (tmp_path / f".removing-step-00000000{n}-0badcafe" for n in (1, 2))
    for path in (stuck, other):
        path.mkdir()
        (path / "index.json").touch()
    is_on = True

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if is_on and event == "shutil.rmtree" and str(arguments[0]) == str(stuck):
            raise PermissionError(errno.EPERM, "Operation not permitted", str(stuck))

    sys.addaudithook(refuse)
    remove_unfinished(tmp_path)
    is_on = False

    assert [path.name for path in tmp_path.iterdir()] == [stuck.name]
    assert f"{stuck} cannot be removed: Operation not permitted" in caplog.text
