"""What users can put into the kernel log is never taken for a fault, nor for the end of one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.node.kernel_lines import (
    KernelEvent,
    message_in,
    parse_line,
    parse_records,
)
from slurm_resilience.node.probes import kernel_log

LOGS = Path(__file__).parents[1] / "kernel_log"
REAL = sorted(
    {
        message
        for path in LOGS.glob("*.log")
        for line in path.read_text().splitlines()
        if parse_line(message := message_in(line))
    }
)
MORE = [
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.54.15",
    "GPU reset executed: GPU-455d8f70-2051-db6c-0430-ffc457bff834, success: true",
    "NVRM: GPU at PCI:0000:1b:00: GPU-455d8f70-2051-db6c-0430-ffc457bff834",
    "NVRM: fallen off the bus and is not responding to commands.",
]
SAYS = {
    "segfault": "{comm}[{pid}]: segfault at 0 ip 00007f sp 00007f error 6 in {file}[400000+1000]",
    "trap": "traps: {comm}[{pid}] trap invalid opcode ip:40 sp:7f error:0 in {file}[400000+1000]",
    "bad frame": "signal: {comm}[{pid}] bad frame in rt_sigreturn frame: 0 in {file}[400000+1000]",
    "out of memory": "{comm} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "its cgroup": "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/{file},task={comm},pid={pid},uid=1000",
    "cgroup limits": "Memory cgroup stats for /{file}:",
    "no memory": "{comm}: page allocation failure: order:4, mode:0x40dc0, nodemask=(null)",
    "stack": "{comm} ({pid}) used greatest stack depth: 10576 bytes left",
    "obsolete": "{comm} ({pid}): Using mlock ulimits for SHM_HUGETLB is obsolete",
    "who": "CPU: 3 PID: {pid} Comm: {comm} Not tainted 6.1.0",
    "overlay": "overlayfs: failed to resolve '{file}': -2",
    "executable stack": "process '{file}' started with executable stack",
    "audit": 'audit: type=1326 audit(1.2:3): uid=1000 pid={pid} comm="{comm}" exe="{file}" sig=31',
    "of a mount": "EXT4-fs error (device loop7): ext4_lookup:1700: inode #2: comm {comm}: {file}",
    "cleartext": "warning: `{comm}' uses wireless extensions: {file}",
}
LINES = st.sampled_from([*REAL, *MORE])
COMM = st.one_of(
    LINES.map(lambda line: line[:15]),
    st.tuples(LINES, st.integers(0, 15)).map(lambda cut: cut[0][: cut[1]]),
    st.tuples(LINES, st.integers(0, 60)).map(lambda cut: cut[0][cut[1] : cut[1] + 15]),
    st.text(max_size=15),
)


def in_kmsg(text: str) -> str:
    """As /dev/kmsg writes what is no plain ASCII."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "replace")
    )


def names(comm: str, file: str) -> dict[str, str]:
    """What a user may choose: a process has 15 bytes, a file nearly everything."""
    return {
        "comm": in_kmsg(comm.encode()[:15].decode("utf-8", "ignore")),
        "file": in_kmsg(file),
    }


NAMES = st.builds(names, COMM, st.one_of(LINES, LINES.map("\n{}".format)))


def told(log: Path, *lines: str, priority: int = 6) -> tuple[KernelEvent, ...]:
    """What a health check makes of a kernel log."""
    log.write_text("".join(f"{priority},{n},{n}000,-;{line}\n" for n, line in enumerate(lines)))
    return parse_records(kernel_log.read(str(log), everything=True))


@pytest.mark.parametrize("says", SAYS.values(), ids=SAYS)
@given(chosen=NAMES, pid=st.integers(1, 4194304))
def test_no_name_of_a_users_is_an_event(
    says: str, chosen: dict[str, str], pid: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Processes, files and cgroups have names that users choose; the kernel writes them down."""
    text = says.format(**chosen, pid=pid)

    assert parse_line(text) is None
    assert told(tmp_path_factory.getbasetemp() / "forged", text) == ()


@given(chosen=NAMES)
def test_a_name_settles_no_fault(
    chosen: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither a driver load nor a reset that only a name tells of is the end of an Xid."""
    xid = "NVRM: Xid (PCI:0000:1b:00): 95, pid=7, name=p, Uncontained ECC error"
    forged = [says.format(**chosen, pid=7) for says in SAYS.values()]

    (event,) = told(tmp_path_factory.getbasetemp() / "settled", xid, *forged)

    assert (event.code, event.count) == (95, 1)


def test_what_the_kernel_says_is_an_event(tmp_path: Path) -> None:
    """The same words from the kernel itself count; from a program that writes to its log, never."""
    assert [line for line in REAL if not parse_line(line)] == []
    assert told(tmp_path / "kernel", *REAL, *MORE)
    assert told(tmp_path / "program", *REAL, *MORE, priority=14) == ()
