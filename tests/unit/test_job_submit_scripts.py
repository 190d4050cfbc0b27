"""The scripts for slurmctld and sbatch in every Lua that Slurm may be built with."""

import importlib
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "job_submit"
INSTALLED = "/opt/slurm-resilience/share/slurm-resilience/job_submit"
UNSAID_16, UNSAID_32 = 0xFFFE, 0xFFFFFFFE


class Site:
    """A Lua with what Slurm gives a script, and a file of nodes to avoid."""

    def __init__(self, version: str, folder: Path) -> None:
        self.lua: Any = importlib.import_module(f"lupa.{version}").LuaRuntime()
        self.said: list[str] = []
        self.avoid = folder / "avoid-nodes"
        self.library = self.lua.execute((SCRIPTS / "slurm_resilience.lua").read_text())
        self.library.AVOID = str(self.avoid)
        self.library.ALIKE = self.lua.table_from({"all": True, "small": True})
        self.slurm = self.lua.table_from(
            dict.fromkeys(("log_user", "log_error", "log_info", "log_debug"), self._say)
        )
        self.slurm.SUCCESS = 0

    def _say(self, form: str, *words: str) -> None:
        self.said.append(" ".join(words) or form)

    def submitted(self, partitions: dict[str, str], **asked: object) -> Any:  # noqa: ANN401 - Lua
        job = {
            "comment": "slurm-resilience", "script": "#!", "requeue": UNSAID_16,
            "min_nodes": UNSAID_32, **asked,
        }  # fmt: skip
        table = self.lua.table_from(job)
        listed = {
            name: self.lua.table_from({"nodes": nodes, "flag_default": int(name == "all")})
            for name, nodes in partitions.items()
        }
        self.library.submit(self.slurm, table, self.lua.table_from(listed))
        return table

    def run(self, name: str, library: Path) -> Any:  # noqa: ANN401 - Lua
        """What the globals are once a script of ours has been loaded."""
        there = self.lua.globals()
        there.slurm = self.slurm
        text = (SCRIPTS / name).read_text()
        assert INSTALLED in text
        self.lua.execute(text.replace(f"{INSTALLED}/slurm_resilience.lua", str(library)))
        return there


@pytest.fixture(params=["lua51", "lua52", "lua53", "lua54"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    return Site(request.param, tmp_path)


@pytest.mark.parametrize(
    ("nodes", "avoid", "excluded"),
    [
        ("n[1-4]", "n2", "n2"),
        ("n[1-4],m7", "m7\nn9", "m7"),
        ("n[08-10]", "n08\nn8\nn10", "n08,n10"),
        ("r[1-2]n[1,3-4]x", "r2n3x\nr2n2x", "r2n3x"),
        ("n1", "n1", None),
        ("", "n1", None),
        ("n[1-3]", "", None),
        ("n[1-3]", "# n1\n  n2   # why\n\n", "n2"),
        ("n[1-3]", "n1 until=1\nn2 until=99999999999\n", "n2"),
    ],
)  # fmt: skip
def test_nodes_are_found_in_host_lists(
    site: Site, nodes: str, avoid: str, excluded: str | None
) -> None:
    """As Slurm writes them; what is no node of the partition, or is due no more, is passed over."""
    site.avoid.write_text(avoid)

    assert site.submitted({"all": nodes}).exc_nodes == excluded


@pytest.mark.parametrize(
    ("asked", "excluded"),
    [
        ({}, "n1,n2"),
        ({"min_nodes": 3}, "n1"),
        ({"min_nodes": 4}, None),
        ({"exc_nodes": "n[1,4]"}, "n[1,4],n2"),
        ({"exc_nodes": "n4", "min_nodes": 3}, "n4"),
        ({"req_nodes": "n[1-2]"}, None),
        ({"max_nodes": 2, "min_nodes": 2, "num_tasks": 64}, "n1,n2"),
        ({"max_nodes": 4, "min_nodes": 1}, None),
        ({"num_tasks": 1}, "n1,n2"),
        ({"num_tasks": 5}, None),
        ({"num_tasks": 8, "min_nodes": 2}, None),
        ({"tres_per_job": "gres:gpu:9"}, None),
        ({"max_nodes": 2, "tres_per_job": "gres:gpu:16"}, "n1,n2"),
        ({"reservation": "r1"}, None),
        ({"features": "big"}, None),
        ({"batch_features": "big"}, None),
        ({"contiguous": 1}, None),
        ({"contiguous": UNSAID_16}, "n1,n2"),
        ({"partition": "mixed"}, None),
        ({"partition": "all,mixed"}, None),
        ({"partition": "small"}, "n1"),
        ({"partition": "small,all"}, "n1"),
        ({"partition": "none"}, None),
        ({"comment": "other"}, None),
        ({"comment": "slurm-resilience-requeue=1"}, None),
        ({"script": None}, None),
    ],
    ids=str,
)
def test_a_job_can_be_placed_whatever_is_avoided(
    site: Site, asked: dict[str, object], excluded: str | None
) -> None:
    """What the user excludes counts too; what the user asks for stays."""
    site.avoid.write_text("n1\nn2\n")

    job = site.submitted({"all": "n[1-4]", "small": "n[1-2]", "mixed": "n[1-9]"}, **asked)

    assert job.exc_nodes == (excluded or asked.get("exc_nodes"))


def test_nodes_stay_where_the_site_does_not_call_them_alike(site: Site) -> None:
    """Which is how it comes: Slurm refuses a job that asks for what only excluded nodes have."""
    site.avoid.write_text("n1\n")
    site.library.ALIKE = site.lua.table_from({})

    assert site.submitted({"all": "n[1-4]"}).exc_nodes is None
    assert site.said == [
        "slurm-resilience: no node is avoided for a job: partition all is not in ALIKE"
    ]


@pytest.mark.parametrize("case", ["a folder", "a loop of links", "absent", "no folder"])
def test_a_file_that_cannot_be_read_is_told_unless_it_is_not_there(
    site: Site, case: str
) -> None:
    """The job is submitted either way."""
    if case == "a folder":
        site.avoid.mkdir()
    elif case == "a loop of links":
        site.avoid.symlink_to(site.avoid.name)
    elif case == "no folder":
        site.library.AVOID = "/nosuch/avoid-nodes"

    job = site.submitted({"all": "n[1-4]"})

    assert (job.requeue, job.exc_nodes) == (1, None)
    if case in ("absent", "no folder"):
        assert site.said == []
    else:
        assert [f"slurm-resilience: {site.avoid}: " in line for line in site.said] == [True]
        assert site.said[0].endswith("; not used")


@pytest.mark.parametrize(("asked", "given"), [(UNSAID_16, 1), (None, 1), (1, 1), (0, 0)])
def test_requeue_is_given_where_nothing_was_said(
    site: Site, asked: int | None, given: int
) -> None:
    """A no is answered with what it means."""
    job = site.submitted({"all": "n1"}, requeue=asked)

    assert job.requeue == given
    assert bool(site.said) == (asked == 0)


def test_options_are_given_where_nothing_was_said(site: Site) -> None:
    """22.05 shows a signal that nobody asked for as 0@0."""
    unsaid = {"type": "sbatch", "comment": "slurm-resilience", "signal": "0@0"}
    said = {**unsaid, "signal": "USR1", "open-mode": "t"}
    tables = [site.lua.table_from(one) for one in (unsaid, said)]
    shell = site.lua.table_from({**unsaid, "type": "srun"})

    for table in (*tables, shell):
        site.library.pre_submit(site.slurm, table)

    assert [(one["open-mode"], one["signal"]) for one in (*tables, shell)] == [
        ("append", "B:USR2@120"), ("t", "USR1"), (None, "0@0"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", [None, "", "return 5", "error('x')", "return {}", "((", "return {submit=1}"]
)
@pytest.mark.parametrize("name", ["job_submit.lua", "cli_filter.lua"])
def test_a_job_passes_whatever_the_library_is(
    site: Site, name: str, text: str | None, tmp_path: Path
) -> None:
    """Missing, empty, half written, raising: success, and a word in the log."""
    library = tmp_path / "library.lua"
    if text is not None:
        library.write_text(text)

    there = site.run(name, library)
    job = site.lua.table_from({"comment": "slurm-resilience", "type": "sbatch"})
    if name == "job_submit.lua":
        passed = there.slurm_job_submit(job, site.lua.table_from({}), 0)
    else:
        passed = there.slurm_cli_pre_submit(job, 0)

    assert passed == 0
    assert "the job goes on without what is missing" in site.said[-1]


def test_the_scripts_find_the_library(site: Site) -> None:
    """And answer to every call that Slurm makes."""
    library = SCRIPTS / "slurm_resilience.lua"
    job = site.lua.table_from({"comment": "slurm-resilience", "script": "#!", "type": "sbatch"})

    controller = site.run("job_submit.lua", library)
    submitted = controller.slurm_job_submit(job, site.lua.table_from({}), 0)
    modified = controller.slurm_job_modify(job, job, site.lua.table_from({}), 0)
    client = site.run("cli_filter.lua", library)
    filtered = client.slurm_cli_pre_submit(job, 0)

    assert (submitted, modified, filtered) == (0, 0, 0)
    assert client.slurm_cli_setup_defaults(job, 0) == 0
    assert client.slurm_cli_post_submit(0, 1, 0) == 0
    assert (job.requeue, job["open-mode"]) == (1, "append")
