"""Lint reads directives as the sbatch of a real Slurm does."""

import re

import pytest

from slurm_resilience.lint.facts import read
from testbed import Cluster
from testbed.layout import CHECKOUT

pytestmark = pytest.mark.cluster

FILES = sorted([
    *(CHECKOUT / "sbatch_templates").glob("*.sbatch"),
    *(CHECKOUT / "tests" / "scripts").glob("*.sbatch"),
])  # fmt: skip
ODD = {
    "short": "#SBATCH -N2 -n 4 -J x -t5 -Hs -c2",
    "begun": "#SBATCH --ntasks-per-n=2 --nodes 2 --exclusiv --mem-per-c 10",
    "quoted": "#SBATCH --comment='two words' -J \"a 'b'\"",
    "commented": "#SBATCH -N2 # --ntasks=4\n##SBATCH -J x\n# SBATCH -J y\n#SBATCH -J z#w",
    "late": "#SBATCH -N2\n\n   \n# words\n#SBATCH -J x\necho\n#SBATCH -n4",
    "indented": "  #SBATCH -N2\n#SBATCH -J x",
    "glued": "#SBATCH-N2\n#SBATCH\t--ntasks=3",
    "optional": "#SBATCH --requeue --open-mode append --exclusive=user --nice -k -J x",
    "renamed": "#SBATCH --tasks-per-node 2 --nodes=2",
    "het": "#SBATCH -N1 -J x\n#SBATCH hetjob\n#SBATCH -N2 --comment=y",
    "twice": "#SBATCH -J x\n#SBATCH --job-name=y",
}
SHOWN_AS_GIVEN = (
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "job-name",
    "comment",
    "mail-user",
    "array",
)


def by_sbatch(cluster: Cluster, text: str, name: str) -> dict[str, str]:
    """The options that sbatch says it was given, of the first component."""
    path = cluster.home("alice") / f"{name}.sbatch"
    path.write_text(text)
    # With so many words it lists them, before slurmctld is asked.
    done = cluster.run(["sbatch", "-vv", "--test-only", str(path)], check=False)
    line = "sbatch: -{20} -{20}\n"
    found = re.search(f"sbatch: defined options\n{line}(.*?){line}", done.stderr, re.DOTALL)
    assert found, done.stderr
    pairs = (one.removeprefix("sbatch: ").partition(":") for one in found[1].splitlines())
    given = {key.strip(): value.strip() for key, _, value in pairs}
    return {key: value for key, value in given.items() if key not in {"verbose", "test-only"}}


def test_directives_are_read_alike(cluster: Cluster) -> None:
    """The same options of all of them, by the same names, with the same values."""
    texts = {path.stem: path.read_text() for path in FILES}
    texts |= {name: f"#!/bin/bash\n{header}\n" for name, header in ODD.items()}

    for name, text in texts.items():
        real = by_sbatch(cluster, text, name)
        ours = {option.name: option.value for option in read(text).options}

        assert set(ours) == set(real), name
        for key in SHOWN_AS_GIVEN:
            assert ours.get(key) == real.get(key), f"{name}: {key}"
