"""`decode`: a kernel log of any make -> one entry a fault, with its verdict."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.cli import main
from slurm_resilience.node.decoding import Decoded, decode
from slurm_resilience.node.settings import NodeSettings

LOGS = Path(__file__).parents[1] / "kernel_log"

VERDICTS: dict[str, list[str]] = {
    "xid_79": [
        "drain xid 79 0000:05:00.0",
        "drain xid 79 0000:b3:00.0",
        "drain xid 79 0000:01:00.0",
    ],
    "gpu_fell_off_bus": [
        "drain gpu-lost 0000:b3:00.0",
        "drain gpu-lost 0000:29:00.0",
        "drain gpu-lost 0000:18:00.0",
    ],
    "xid_94": ["ignore xid 94 0000:0f:00.0"],
    "xid_64": ["drain xid 64 0000:0f:00.0"],
    "xid_63": ["drain-when-idle xid 63 0000:10:1c.0"],
    "xid_13_and_109": [
        "ignore xid 13 0000:cb:00.0 x3",
        "drain-when-idle xid 109 0000:cb:00.0",
    ],
    "xid_45_then_hung_task": [
        "ignore xid 45 0000:61:00.0 x3",
        "warn hung-task cache_mgr_event",
    ],
    "xid_45_caused_by_others": [
        "unknown xid 45 0000:dc:00.0",
        "unknown xid 45 0000:ed:00.0",
        "unknown xid 45 0000:ba:00.0",
    ],
    "xid_144_to_150": [
        "drain xid 149 0018:01:00.0",
        "drain xid 149 0008:01:00.0",
        "warn xid 149 0008:01:00.0",
        "warn xid 145 0018:01:00.0",
        "warn xid 145 0008:01:00.0",
        "drain xid 150 0000:04:00.0",
    ],
    "xid_74": ["drain-when-idle xid 74 0003:00:00.0"],
    "sxid": [
        "warn sxid 12028 0000:05:00.0",
        "drain sxid 20034 0000:00:00.0",
        "warn sxid 22013 0000:0a:00.0",
    ],
    "mlx5": [
        "drain nic 0000:03:00.0",
        "drain nic 0000:d2:00.0",
        "ignore nic 0000:41:00.1",
        "warn nic 0000:5c:00.0",
        "warn nic 0000:12:00.0",
        "warn nic 0000:65:00.0",
    ],
    "pcie_narrow": ["ignore pcie 0000:07:00.0"],
    "lspci_rev_ff": ["drain gpu-lost 0000:1c:00.0"],
    "settled_by_driver_load": [
        "ignore xid 95 0000:1b:00.0",
        "ignore xid 79 0000:2b:00.0",
        "ignore xid 31 0000:1b:00.0",
    ],
    "links": [
        "warn link eth0 x3",
        "ignore link eno1 x3",
        "ignore link ib3",
    ],
    "oom_kill": ["ignore oom-kill python3", "ignore oom-kill bash"],
    "nfs": ["ignore nfs 192.0.2.10", "warn nfs filer2", "warn nfs node"],
}

HEADS = {
    "kmsg": ("4,1234,1843308145,-;{}", 1843.308145),
    "dmesg": ("[ 1843.308145] {}", 1843.308145),
    "dmesg -x": ("kern  :err   : [ 1843.308145] {}", 1843.308145),
    "dmesg -T": ("[Sat Oct 12 18:35:32 2024] {}", "2024-10-12T18:35:32"),
    "dmesg iso": ("2024-10-12T18:35:32,123456+02:00 {}", "2024-10-12T18:35:32+02:00"),
    "journalctl": ("Oct 12 18:35:32 node001 kernel: {}", "Oct 12 18:35:32"),
    "journalctl iso": (
        "2024-10-12T18:35:32+0200 node001 kernel: {}",
        "2024-10-12T18:35:32+02:00",
    ),
    "journalctl monotonic": ("[ 1843.308145] node001 kernel: {}", 1843.308145),
    "syslog": ("Oct  2 18:35:32 node001 kernel: [ 1843.308145] {}", "Oct  2 18:35:32"),
    "journalctl json": (
        '{{"__REALTIME_TIMESTAMP":"1728757528123456","PRIORITY":"3","MESSAGE":"{}"}}',
        "2024-10-12T18:25:28Z",
    ),
    "journalctl json without a time": ('{{"MESSAGE":"{}","PRIORITY":"3"}}', None),
    "json of somebody else": ('{{"message":"{}"}}', None),
    "torn json": ('{{"MESSAGE":"{}', None),
    "bare": ("{}", None),
    "a day that is none": ("Feb 31 18:35:32 node001 kernel: {}", None),
}
XID = "NVRM: Xid (PCI:0000:05:00): 79, pid=1, name=p, GPU has fallen off the bus."


def told(event: Decoded) -> str:
    code = "" if event.code is None else f" {event.code}"
    times = f" x{event.count}" if event.count > 1 else ""
    return f"{event.verdict} {event.kind}{code} {event.subject}{times}"


def read(lines: list[str]) -> tuple[Decoded, ...]:
    return decode(lines, NodeSettings(), file="-")


@pytest.mark.parametrize("name", VERDICTS)
def test_a_log_is_decoded(name: str) -> None:
    """One entry a fault, in the log's order; storms and continuation lines are joined."""
    lines = (LOGS / f"{name}.log").read_text().splitlines(keepends=True)

    assert [told(event) for event in read(lines)] == VERDICTS[name]


@pytest.mark.parametrize(("head", "time"), HEADS.values(), ids=HEADS)
def test_what_stands_before_the_message_gives_the_time(
    head: str, time: str | float | None
) -> None:
    """Kernel, dmesg, journal and syslog write the time in their own ways, or not at all."""
    (event,) = read([head.format(XID) + "\n"])

    assert (event.time, event.verdict, event.subject) == (time, "drain", "0000:05:00.0")


BESIDE_THE_KERNEL = [
    f"Oct 12 18:35:32 node001 python3[4711]: {XID}",
    f"2024-10-12T18:35:32+0200 node001 python3[4711]: {XID}",
    f"[ 1843.308145] node001 python3[4711]: {XID}",
    f"[ 1843.308145] NVRM: Xid (PCI:[27781]: segfault at 0 ip 0 sp 0 error 6 in {XID}[400000+1]",
    f"[ 1843.308145] [  T4711] overlayfs: failed to resolve '{XID}': -2",
    f"Oct 12 18:35:32 node001 kernel: oom-kill:task_memcg=/{XID},task=x,pid=4711,uid=1000",
    f"4,1234,1843308145,-;x[4711]: segfault at 0 ip 0 sp 0 error 6 in {XID}[400000+1]",
    f'{{"_TRANSPORT":"stdout","SYSLOG_IDENTIFIER":"python3","_PID":"4711","MESSAGE":"{XID}"}}',
    f'n1: [ 1843.308145] audit: type=1326 comm="x" exe="{XID}"',
]


@pytest.mark.parametrize("line", BESIDE_THE_KERNEL)
def test_what_others_have_put_into_a_log_is_no_fault(line: str) -> None:
    """Programs write to it, and the kernel writes down what they and their files are called."""
    assert read([line + "\n"]) == ()


@pytest.mark.parametrize(
    "head",
    [
        "n1: ",
        "n1: [ 1843.308145] ",
        "<4>",
        "[ 1843.308145] [  T4711] ",
        "[1843.308145][T4711] ",
        "3: ",
    ],
)
def test_what_people_put_in_front_is_passed_over(head: str) -> None:
    """Names of nodes by pdsh, of tasks by srun, of threads by the kernel."""
    assert [told(event) for event in read([head + XID])] == ["drain xid 79 0000:05:00.0"]


def test_the_time_is_that_of_the_first_line() -> None:
    """A storm is told with its begin."""
    lines = [f"[ {n}.500000] {XID.replace('79', '31')}" for n in range(10, 20)]

    (event,) = read(lines)

    assert (event.time, event.count) == (10.5, 10)


def test_a_record_of_several_lines_is_read_from_kmsg() -> None:
    """/dev/kmsg writes a line end within a message as \\x0a."""
    line = (
        "4,17,1200000,-;NVRM: The NVIDIA GPU 0000:b3:00.0\\x0aNVRM: (PCI ID: 10de:26b5) installed"
        " in this system has\\x0aNVRM: fallen off the bus and is not responding to commands.\n"
    )

    assert [told(event) for event in read([line])] == ["drain gpu-lost 0000:b3:00.0"]


@settings(deadline=None)
@given(st.lists(st.text(max_size=200)))
def test_any_text_is_read(lines: list[str]) -> None:
    """A log may hold anything."""
    read(lines)


MARKED = st.sampled_from(
    [line for path in sorted(LOGS.glob("*.log")) for line in path.read_text().splitlines()]
)


@given(
    st.lists(st.tuples(MARKED, st.integers(0, 200), st.integers(0, 200), st.text(max_size=9)))
)
def test_torn_and_forged_lines_are_read(cuts: list[tuple[str, int, int, str]]) -> None:
    """Lines that begin like a fault's and go on as anything."""
    for event in read([line[:cut] + text + line[back:] for line, cut, back, text in cuts]):
        assert event.verdict in {"ignore", "unknown", "warn", "drain-when-idle", "drain"}
        assert event.why


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kern.log"
    path.write_text(f"[ 1843.308145] {XID}\nOct 12 18:35:32 n1 kernel: quiet\n")
    return path


def test_json_is_one_document(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a program reads: names as documented, and nothing else on standard output."""
    status = main(["decode", str(log), "--json"])

    assert status == 0
    assert json.loads(capsys.readouterr().out) == {
        "events": [
            {
                "kind": "xid",
                "code": 79,
                "subject": "0000:05:00.0",
                "time": 1843.308145,
                "verdict": "drain",
                "why": "reboot the node",
                "text": "GPU has fallen off the bus.",
                "count": 1,
                "file": str(log),
            }
        ]
    }


def test_people_get_a_line_a_fault(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict first, then what, where and why."""
    assert main(["decode", str(log)]) == 0

    told_people = " ".join(capsys.readouterr().out.split())
    assert told_people == (
        "drain xid 79 0000:05:00.0 [1843.308145]: GPU has fallen off the bus. (reboot the node)"
    )


def test_nothing_found_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty answer would look like a broken command."""
    (tmp_path / "quiet.log").write_text("all is well\n")

    assert main(["decode", str(tmp_path / "quiet.log")]) == 0
    assert "nothing" in capsys.readouterr().out


def test_terminal_sequences_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others' text does not steer the terminal."""
    (tmp_path / "kern.log").write_text(XID + " \x1b[2J\n")

    main(["decode", str(tmp_path / "kern.log")])

    assert "\x1b" not in capsys.readouterr().out


def test_standard_input_is_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`dmesg | slurm-resilience decode -`."""
    raw = io.BytesIO(f"{XID}\n\xff\xfe\n".encode("latin-1"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))

    assert main(["decode", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"][0]["code"] == 79


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"\x1f\x8b\x08rest", "zcat"), ("folder", "directory")],
    ids=["absent", "compressed", "folder"],
)
def test_what_cannot_be_read_is_said_in_one_line(
    log: Path, content: bytes | str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, the file named, and nothing half done: the good file beside it is not told."""
    bad = log.parent / "bad.log"
    if isinstance(content, bytes):
        bad.write_bytes(content)
    elif content:
        bad.mkdir()

    status = main(["decode", str(log), str(bad)])

    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert str(bad) in err
    assert said in err


def test_a_site_may_know_better(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Judged as the hooks would, where their configuration is named."""
    config = log.parent / "config.yaml"
    config.write_text("node: {xids: {79: warn}}\n")

    assert main(["decode", str(log), "--config", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"][0]["verdict"] == "warn"


def test_a_large_log_takes_no_more_memory(tmp_path: Path) -> None:
    """Forty megabytes of ever new processes cost less than the file, storms nothing at all."""
    log = tmp_path / "large.log"
    hung = "[ {0}.000000] INFO: task worker{0}:620917 blocked for more than 120 seconds.\n"
    with log.open("w") as file:
        for number in range(50_000):
            file.write(hung.format(number))
        file.write("x" * 30_000_000 + "\n")
        file.writelines(f"[ {n}.1] {XID}\n" for n in range(50_000))
    program = (
        "import re, sys\n"
        "from slurm_resilience.cli import main\n"
        "status = main(['decode', sys.argv[1], '--json'])\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())\n"
        "print(peak[1], file=sys.stderr)\n"
        "sys.exit(status)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(log)], capture_output=True, text=True, check=True
    )

    assert int(done.stderr) < 80_000  # KiB
    assert json.loads(done.stdout)["events"][-1]["count"] == 50_000
