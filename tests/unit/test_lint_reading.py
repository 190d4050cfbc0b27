"""How lint reads a script: as sbatch and bash do, and never with an error."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.lint import asked
from slurm_resilience.lint.facts import Script, read
from slurm_resilience.lint.fix import fixed
from slurm_resilience.lint.rules import judge

JUDGE = """
import sys
from slurm_resilience.lint.facts import read
from slurm_resilience.lint.rules import judge
judge(read(sys.stdin.read()))
"""


def script(*lines: str) -> Script:
    return read("\n".join(("#!/bin/bash", *lines)) + "\n")


def options(*lines: str) -> dict[str, str | None]:
    return {option.name: option.value for option in script(*lines).options}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#SBATCH --nodes=2 --time 1:00", {"nodes": "2", "time": "1:00"}),
        ("#SBATCH -N2 -t1:00", {"nodes": "2", "time": "1:00"}),
        ("#SBATCH -N 2 -n=8", {"nodes": "2", "ntasks": "8"}),
        ("#SBATCH --ntasks-per-n=4", {"ntasks-per-node": "4"}),
        ("#SBATCH --tasks-per-node=4", {"ntasks-per-node": "4"}),
        ("#SBATCH --requeue --nodes 2", {"requeue": None, "nodes": "2"}),
        ("#SBATCH --exclusive=user -HN 3", {"exclusive": "user", "hold": None, "nodes": "3"}),
        (
            "#SBATCH --comment='two words' -J \"a b\"",
            {"comment": "two words", "job-name": "a b"},
        ),
        (r"#SBATCH -J a\ b --mem=1", {"job-name": "a b", "mem": "1"}),
        ("#SBATCH --gres=gpu:4  # four of them --mem=1", {"gres": "gpu:4"}),
        ("#SBATCH\t--nodes=2", {"nodes": "2"}),
        ("#SBATCH --nodes=2 --nodes=3", {"nodes": "3"}),
        ("#SBATCH --nodes=2\n\n# words\n#SBATCH -t 5", {"nodes": "2", "time": "5"}),
        ("#SBATCH --nodes\n#SBATCH 2", {"nodes": "2"}),
        ("##SBATCH --nodes=2", {}),
        ("# SBATCH --nodes=2", {}),
        ("#SBATCH --nodes=2\n#SBATCH hetjob\n#SBATCH --nodes=9", {"nodes": "2"}),
        ("#SBATCH --wait --new-option=x word", {"wait": None, "new-option": "x"}),
        ("#SBATCH --comment='never closed", {"comment": "never closed"}),
        ("echo\n#SBATCH --nodes=2", {}),
    ],
    ids=lambda value: value.replace("\n", " | ") if isinstance(value, str) else "",
)
def test_directives_are_read_as_sbatch_reads_them(
    line: str, expected: dict[str, str | None]
) -> None:
    """Short, long, begun, quoted, one behind the other; up to the first command."""
    assert options(*line.split("\n")) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("srun a b", ["srun a b", "a b"]),
        ("A=1; B=$A-2\nsrun x ${B} $C", ["srun x 1-2 $C", "x 1-2 $C"]),
        ("ARGS=(--a 1  # why\n  --b 'x y'\n)\nrun ${ARGS[@]}", ["run --a 1 --b x y"]),
        ('A="--x 1"; A+=" --y 2"\nrun $A "$A"', ["run --x 1 --y 2 --x 1  --y 2"]),
        ("run a \\\n  b", ["run a b"]),
        ("run '#' a#b # c", ["run # a#b"]),
        ("cat <<EOF\nsrun no\nEOF\nrun", ["cat", "run"]),
        ("cat <<-'E' | tee x\n\tsrun no\n\tE\nrun", ["cat", "tee x", "run"]),
        ("a <<< word && b > out 2>&1 | c", ["a", "b", "c"]),
        ("x=$(srun no) y=`srun no`\nrun $(date +'%F')", ["run $(date +'%F')"]),
        ("if ! a; then b; else c; fi", ["a", "b", "c"]),
        ("for i in 1 2; do a $i; done", ["a $i"]),
        ("case $1 in x) a;; *) b;; esac", ["a", "*", "b"]),
        ("((i++)); [[ a > b ]] && c", ["[[ a ]]", "c"]),
        ("srun --nodes 1 -n2 bash -lc 'cd w && run x' &", [
            "srun --nodes 1 -n2 bash -lc cd w && run x", "bash -lc cd w && run x", "cd w", "run x",
        ]),
        ("exec srun -n 1 run", ["srun -n 1 run", "run"]),
        ("echo \"it's $(echo \"a b\") fine\"; run", ["echo it's $(echo \"a b\") fine", "run"]),
        ("export A=1 B=2; run $A$B", ["export A=1 B=2", "run 12"]),
        ("P=${P:-29500}\nrun $P ${Q:-x}", ["run 29500 x"]),
        ("read A; A=; run $A.", ["read A", "run ."]),
    ],
)  # fmt: skip
def test_commands_are_read_as_bash_reads_them(body: str, expected: list[str]) -> None:
    """Quotes, continued lines, here documents, lists, variables, what srun and bash -c start."""
    commands = script(*body.split("\n")).commands

    assert [" ".join(command.words) for command in commands] == expected


def test_where_a_command_stands_is_known() -> None:
    """Line, background, loop, function, exec, and the step that srun makes of it."""
    found = script(
        "f() {", "  wait", "}", "( a; b ) &", "while x; do", "  wait $p", "done", "c | d &", "e && g &",
        "exec srun -N1 h",
    ).commands  # fmt: skip
    by_name = {command.words[0]: command for command in found}

    assert [one.line for one in found] == [3, 5, 5, 6, 7, 9, 9, 10, 10, 11, 11]
    assert found[0].function == "f"
    assert not found[0].in_loop
    assert by_name["wait"].in_loop
    assert not by_name["wait"].function
    assert {one.words[0] for one in found if one.background} == {"a", "b", "c", "d", "e", "g"}
    step = by_name["h"].step
    assert step is not None
    assert asked.nodes(step) == 1
    assert by_name["h"].is_exec


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-0", 86400), ("1-12", 129600),
        ("1-2:30", 95400), ("0-0:1:0", 60), ("UNLIMITED", float("inf")), ("hh:mm:ss", None), ("", None),
    ],
)  # fmt: skip
def test_times_are_slurms(text: str, seconds: float | None) -> None:
    """A number alone is minutes."""
    assert asked.seconds(text) == seconds


@pytest.mark.parametrize(
    ("line", "gpus"),
    [
        ("--gpus-per-node=8", 8), ("--gpus-per-node=h100:4", 4), ("--gres=gpu:a100:4(S:0-1)", 4),
        ("--gres=gpu", 1), ("--gres=gpu:2,shard:8", 2), ("--gres=nvme:1", None), ("-G 16 -N 2", 8),
        ("-G 15 -N 2", None), ("--gpus-per-task=1 --ntasks-per-node=4", 4), ("-N 2", None),
    ],
)  # fmt: skip
def test_gpus_of_a_node_are_counted(line: str, gpus: int | None) -> None:
    """However they are asked for; None where the file does not tell."""
    assert asked.gpus_per_node(script(f"#SBATCH {line}").options) == gpus


PIECES = st.sampled_from(
    [
        "#!/bin/bash\n", "#SBATCH ", "--nodes=2", "-N", "--signal=B:USR2@60", " ", "\n", "\r\n", "\\\n",
        "'", '"', "`", "$(", "${", "$((", "((", "))", "(", ")", "{", "}", ";", "&", "|", "<<EOF\n", "EOF\n",
        "<<-'x'\n", "<(", ">&2", "for ", "while ", "do ", "done", "if ", "fi", "function f ", "f() ", "A=", "A+=",
        "A=(", "$A", "${A[@]}", "${A:-$A}", "srun ", "sbatch ", "--wrap=", "torchrun ", "exec ", "bash -c ", "trap ", "wait", "python ",
        "train.py", " --master_port ", "9" * 5000, "slurm-resilience run -- ", "hetjob", "\0", "\ud800", "é", "#",
        "# slurm-resilience: ignore=x,,y", "scontrol requeue $SLURM_JOB_ID", "export NCCL_IB_TIMEOUT=",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=60).map("".join))
def test_nothing_that_is_handed_in_is_an_error(text: str) -> None:
    """Whatever the text: read, judged and mended without a word of complaint."""
    seen = read(text)
    findings = judge(seen, save_s=1000.0)

    assert "".join(seen.lines) == text
    assert all(0 <= finding.line <= len(seen.lines) for finding in findings)
    judge(read(fixed(seen, findings)))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_no_text_is_an_error(text: str) -> None:
    """Not even one that is no script at all."""
    judge(read(text))


@pytest.mark.parametrize(
    "text",
    [
        "$(" * 100_000, '"' + "${" * 100_000, "'\"`" * 60_000, "(" * 200_000, "A=x\n" + 'A="$A$A"\n' * 200,
        "srun " * 50_000, "bash -c 'bash -c \"bash -c x\"' " * 2000, "A=(" * 60_000, "#SBATCH -" + "x" * 200_000,
        "<<E " * 50_000, "\\\n" * 100_000, "torchrun " + "--a " * 100_000,
        f"A='{'a ' * 9_000}'\n" + "x $A\n" * 100_000, "for a in b; do " * 60_000,
    ],
    ids=range(14),
)  # fmt: skip
def test_a_text_made_to_be_slow_is_not(text: str) -> None:
    """No text of a megabyte takes long: nothing is searched over and over."""
    done = subprocess.run(
        [sys.executable, "-c", JUDGE],
        input=f"#!/bin/bash\n{text}\n",
        text=True,
        timeout=60,
        check=False,
        capture_output=True,
    )

    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_mended_stays_so(end: str) -> None:
    """Every safe change takes its finding away and brings none; the rest of the file is untouched."""
    lines = [
        "#!/bin/bash",
        "#SBATCH --nodes=2 --signal=USR2@60   # of each",
        "#SBATCH --time=5-0 --array=1-3",
        "again() { scontrol requeue $SLURM_JOB_ID; }",
        "slurm-resilience run -- torchrun train.py \\",
        "    --steps 5",
    ]
    seen = read(end.join(lines) + end)
    findings = judge(seen)

    text = fixed(seen, findings)

    left = {finding.rule for finding in judge(read(text))}
    assert {finding.rule for finding in findings if finding.edit} - left
    assert not any(finding.edit for finding in judge(read(text))) or "run-without-exec" in left
    assert text.splitlines() == [
        "#!/bin/bash",
        "#SBATCH --nodes=2 --signal=B:USR2@60   # of each",
        "#SBATCH --time=5-0 --array=1-3",
        "#SBATCH --requeue",
        "#SBATCH --comment=slurm-resilience",
        "#SBATCH --open-mode=append",
        'again() { scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"; }',
        *lines[4:],
    ]
