"""One configuration file, refused in one line where it is wrong."""

import os
from pathlib import Path

import pytest

from slurm_resilience import config
from slurm_resilience.errors import ConfigError


def written(path: Path, text: str, mode: int = 0o644) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    """A file with nothing but comments changes nothing."""
    path = written(tmp_path / "c.yaml", "# nothing yet\n")

    assert config.load(path) == config.Config()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("watch: {stal_s: 5}\n", "stal_s"),
        ("watch: {stall_s: soon}\n", "watch.stall_s"),
        ("watch: [1]\n", "watch"),
        ("- 1\n", "object"),
        ("watch: {stall_s: 5\n", "not YAML"),
        ("watch: !!python/object:os.system {}\n", "not YAML"),
        ("a: \x00\n", "not YAML"),
        ("[" * 100_000, "not YAML"),
        ("watch: {stall_s: !!int ''}\n", "not YAML"),
        ("watch: {stall_s: !!timestamp soon}\n", "not YAML"),
        ("watch: {stall_s: 5, stall_s: 6}\n", "stall_s stands there twice"),
        ("watch: {stall_s: 5}\nwatch: {}\n", "watch stands there twice"),
        ("watch: {stall_s: .inf}\n", "watch.stall_s"),
        ("watch: {stall_s: .nan}\n", "watch.stall_s"),
        ("watch: {patience: .inf}\n", "watch.patience"),
        ("watch: {startup_s: 1.0e+308}\n", "watch.startup_s"),
        ("requeue: {exclude_for_s: .inf}\n", "requeue.exclude_for_s"),
        ("node: {verdict_age_s: .inf}\n", "node.verdict_age_s"),
        ("slurm: {timeout_s: 0}\n", "slurm.timeout_s"),
        ("slurm: {bin_dir: usr/bin}\n", "slurm.bin_dir"),
        ("slurm: {bin_dir: /nosuch}\n", "slurm.bin_dir"),
        ("paths: {state: var}\n", "paths.state"),
        ("paths: {proc: proc}\n", "paths.proc"),
        ('paths: {sysfs: "/sys\\0"}\n', "paths.sysfs"),
        ("node: {expect: {disks: {relative: {}}}}\n", "node.expect.disks"),
        ("node: {expect: {links: {eth0: {rate_gbps: .inf}}}}\n", "rate_gbps"),
        (
            "node: {thresholds: {disk_warn_percent: 99, disk_full_percent: 98}}\n",
            "disk_warn_percent (99) is above disk_full_percent (98)",
        ),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(
    tmp_path: Path, text: str, says: str
) -> None:
    """A misspelt threshold never becomes the default silently."""
    path = written(tmp_path / "c.yaml", text)

    with pytest.raises(ConfigError) as refused:
        config.load(path)

    assert str(path) in str(refused.value)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_that_was_named_is_refused(tmp_path: Path) -> None:
    """Only the site's default file may be absent."""
    with pytest.raises(ConfigError, match="no such file"):
        config.load(tmp_path / "none.yaml")


@pytest.mark.skipif(os.geteuid() != 0, reason="speaks of root")
def test_root_refuses_a_file_that_others_can_write(tmp_path: Path) -> None:
    """What root acts on, root alone may write."""
    path = written(tmp_path / "c.yaml", "", mode=0o666)

    with pytest.raises(ConfigError, match="chmod go-w"):
        config.load(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="speaks of root")
def test_root_refuses_a_file_that_others_can_replace(tmp_path: Path) -> None:
    """Who can write its folder, a folder above, or that of a link to it, can put another there."""
    folder = tmp_path / "open" / "within"
    folder.mkdir(parents=True)
    path = written(folder / "c.yaml", "")
    kept = written(tmp_path / "kept.yaml", "")
    (folder / "link.yaml").symlink_to("../../kept.yaml")
    (tmp_path / "link.yaml").symlink_to("open/within/link.yaml")
    assert config.load(tmp_path / "link.yaml") == config.Config()
    folder.parent.chmod(0o777)

    for name in (path, folder / "link.yaml", tmp_path / "link.yaml"):
        with pytest.raises(ConfigError, match=f"chmod go-w {folder.parent}"):
            config.load(name)
    assert config.load(kept) == config.Config()
    folder.parent.chmod(0o1777)
    assert config.load(path) == config.Config()


@pytest.mark.skipif(os.geteuid() != 0, reason="speaks of root")
def test_root_ignores_a_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that leaks into a daemon's environment configures nothing."""
    path = written(tmp_path / "c.yaml", "nonsense: 1\n")
    monkeypatch.setenv(config.VARIABLE, str(path))

    assert config.load() == config.Config()


def test_a_folder_or_an_endless_file_is_refused(tmp_path: Path) -> None:
    """Nothing is read without bounds."""
    with pytest.raises(ConfigError):
        config.load(tmp_path)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ConfigError, match="larger"):
        config.load(tmp_path / "huge")
