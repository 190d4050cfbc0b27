"""pyslurm is only loaded where that is safe, and says in one line why not."""

from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigError
from slurm_resilience.settings import SlurmSettings
from slurm_resilience.slurm.connect import connect


@pytest.fixture
def settings(tmp_path: Path) -> SlurmSettings:
    """A Slurm of which only the version is ever asked."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho slurm-wlm 22.05.8\n")
    scontrol.chmod(0o755)
    return SlurmSettings(adapter="pyslurm", bin_dir=str(tmp_path))


def test_without_a_slurm_conf_it_is_never_imported(
    settings: SlurmSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import would end this very process."""
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "missing.conf"))

    with pytest.raises(
        ConfigError, match=r"needs a slurm.conf; there is none at .*missing.conf"
    ):
        connect(settings)


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ("25.11.2", r"pyslurm is 25.11.2; install the release for Slurm 22.05"),
        ("22.5.3", r"pyslurm cannot be loaded: no libslurm"),
    ],
)
def test_a_pyslurm_that_does_not_fit_is_refused(
    settings: SlurmSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: str,
    said: str,
) -> None:
    """Another version would misread what slurmctld sends."""
    site, conf = tmp_path / "site", tmp_path / "slurm.conf"
    (site / f"pyslurm-{installed}.dist-info").mkdir(parents=True)
    (site / f"pyslurm-{installed}.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: pyslurm\nVersion: {installed}\n"
    )
    (site / "pyslurm.py").write_text("raise ImportError('no libslurm')\n")
    conf.touch()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("SLURM_CONF", str(conf))

    with pytest.raises(ConfigError, match=said):
        connect(settings)
