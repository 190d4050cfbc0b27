"""Kernel-log lines as clusters have seen them, and the verdict each deserves."""

from pathlib import Path

import msgspec
import pytest

from slurm_resilience.node.checks.kernel import KERNEL_CHECKS
from slurm_resilience.node.facts import GpuFacts, NodeFacts
from slurm_resilience.node.kernel_lines import (
    message_in,
    normalised_pci,
    parse_line,
    parse_records,
)
from slurm_resilience.node.kernel_lines.stamps import stamp_of
from slurm_resilience.node.probes.kernel_log import MORE_SORTS, SORTS
from slurm_resilience.node.rules import judge
from slurm_resilience.node.settings import Level, NodeSettings

LOGS = Path(__file__).parents[1] / "kernel_log"

VERDICTS: dict[str, list[str]] = {
    "xid_79": [
        "drain xid 0000:05:00.0",
        "drain xid 0000:b3:00.0",
        "drain xid 0000:01:00.0",
    ],
    "gpu_fell_off_bus": [
        "drain gpu-fell-off-bus 0000:b3:00.0",
        "drain gpu-fell-off-bus 0000:29:00.0",
        "drain gpu-fell-off-bus 0000:18:00.0",
    ],
    "xid_94": ["ok xid 0000:0f:00.0"],
    "xid_64": ["drain xid 0000:0f:00.0"],
    "xid_63": ["drain-when-idle xid 0000:10:1c.0"],
    "xid_13_and_109": ["drain-when-idle xid 0000:cb:00.0", "ok xid 0000:cb:00.0"],
    "xid_45_then_hung_task": ["warn hung-task cache_mgr_event", "ok xid 0000:61:00.0"],
    "xid_45_caused_by_others": [
        "unknown xid 0000:dc:00.0",
        "unknown xid 0000:ed:00.0",
        "unknown xid 0000:ba:00.0",
    ],
    "xid_144_to_150": [
        "drain xid 0018:01:00.0",
        "drain xid 0008:01:00.0",
        "drain xid 0000:04:00.0",
        "warn xid 0008:01:00.0",
        "warn xid 0018:01:00.0",
        "warn xid 0008:01:00.0",
    ],
    "xid_74": ["drain-when-idle xid 0003:00:00.0"],
    "xid_154": [
        "drain xid 0000:2b:00.0",
        "drain-when-idle xid 0000:1b:00.0",
        "ok xid 0000:3b:00.0",
    ],
    "sxid": ["drain sxid 0000:00:00.0", "warn sxid 0000:05:00.0", "warn sxid 0000:0a:00.0"],
    "mlx5": [
        "drain nic-fault 0000:03:00.0",
        "drain nic-fault 0000:d2:00.0",
        "warn nic-fault 0000:5c:00.0",
        "warn nic-fault 0000:12:00.0",
        "warn nic-fault 0000:65:00.0",
        "ok nic-fault 0000:41:00.1",
    ],
    "settled_by_driver_load": [
        "ok xid 0000:1b:00.0",
        "ok xid 0000:2b:00.0",
        "ok xid 0000:1b:00.0",
    ],
    "unknown_xid": ["warn xid 0000:1b:00.0"],
    "pcie_aer": [
        "drain-when-idle pcie-error 0000:03:00.0",
        "warn pcie-error 0000:80:1b.4",
        "ok pcie-error 0000:04:00.0",
    ],
    "pcie_recovered": ["warn pcie-error 0000:ae:00.0"],
    "pcie_contained": [
        "drain-when-idle pcie-error 0000:9b:01.0",
        "warn pcie-error 0000:9b:01.0",
    ],
    "pcie_narrow": ["ok pcie-error 0000:07:00.0"],
    "lspci_rev_ff": ["drain gpu-fell-off-bus 0000:1c:00.0"],
    "memory_corrected": ["ok host-memory-error MC1", "ok host-memory-error CPU 1 bank 11"],
    "memory_corrected_amd": ["ok host-memory-error node"],
    "memory_uncorrected": [
        "drain-when-idle host-memory-error MC0",
        "drain-when-idle host-memory-error page",
    ],
    "machine_check_of_before_boot": ["warn host-memory-error CPU 0 bank 4"],
    "machine_check_uncorrected": [
        "drain-when-idle host-memory-error CPU 24 bank 1",
        "warn host-memory-error node",
    ],
    "disk_errors": [
        "drain-when-idle drive-missing nvme2",
        "warn disk-error nvme1",
        "warn disk-error nvme1",
        "warn disk-error nvme0n1",
        "warn disk-error sda",
    ],
    "file_systems": [
        "drain file-system-error sda1",
        "drain file-system-error dm-3",
        "drain-when-idle file-system-error sda1",
        "drain-when-idle file-system-error nvme0n1p1",
    ],
    "arrays": [
        "drain-when-idle disk-error md0",
        "drain-when-idle drive-missing nvme3n1",
        "drain-when-idle file-system-error dm-0",
        "warn disk-error md1",
    ],
    "nfs": ["warn nfs-silent filer2", "warn nfs-silent node", "ok nfs-silent 192.0.2.10"],
    "links": [],
    "oom_kill": [],
    "settled_by_gpu_reset": [
        "drain-when-idle xid 0000:2b:00.0",
        "ok xid 0000:1b:00.0",
    ],
    "settled_by_recovery": [
        "drain xid 0000:2b:00.0",
        "ok xid 0000:1b:00.0",
        "ok xid 0000:1b:00.0",
        "ok xid 0000:2b:00.0",
    ],
    "xid_after_gpu_reset": [
        "drain-when-idle xid 0000:1b:00.0",
        "ok xid 0000:1b:00.0",
        "ok xid 0000:1b:00.0",
    ],
    "xid_162_cancels_163": [
        "warn xid 0000:2b:00.0",
        "ok xid 0000:1b:00.0",
        "ok xid 0000:1b:00.0",
    ],
    "xid_newer_codes": [
        "drain xid 0000:1b:00.0",
        "drain-when-idle xid 0000:1b:00.0",
        "warn xid 0000:1b:00.0",
        "warn xid 0000:1b:00.0",
    ],
    "gpu_not_started": ["warn gpu-init-failed 0000:29:00.0"],
    "gpu_unsupported_then_nothing": [],
    "gpu_fell_off_bus_first_lines_lost": ["drain gpu-fell-off-bus node"],
    "mlx5_more": [
        "drain nic-fault 0000:d2:00.0",
        "warn nic-fault 0000:65:00.0",
        "warn nic-fault 0000:66:00.0",
        "warn nic-fault 0000:67:00.0",
    ],
}


NOT_FOR_THE_NODE = {"links", "oom_kill", "pcie_narrow", "lspci_rev_ff"}
"""Logs whose lines only `decode` tells of: information, or not the kernel's."""


def facts_of(lines: list[str], *gpus: GpuFacts) -> NodeFacts:
    records = [
        (number, int(stamp_of(line).at_s * 1e6), message_in(line))
        for number, line in enumerate(lines)
    ]
    return NodeFacts("n1", kernel_events=parse_records(records), gpus=gpus or None)


def spaced(lines: list[str], apart_s: float) -> list[str]:
    return [f"[{apart_s * place:.6f}] {line}" for place, line in enumerate(lines, 1)]


def verdicts(facts: NodeFacts) -> list[str]:
    findings = judge(facts, NodeSettings())
    return [f"{one.severity.value} {one.check} {one.subject}" for one in findings]


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_a_log_gets_its_verdict(path: Path) -> None:
    """Each recorded log is judged by NVIDIA's action, and an application's error costs no node."""
    lines = path.read_text().splitlines()

    assert verdicts(facts_of(lines)) == VERDICTS[path.stem]


def test_every_check_of_the_kernel_log_is_found_in_a_log() -> None:
    """A row of the table that no line leads to would be a promise."""
    found = {line.split()[1] for lines in VERDICTS.values() for line in lines}

    assert KERNEL_CHECKS.keys() - {"driver-hung"} <= found


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(LOGS.glob("*.log")) if path.stem not in NOT_FOR_THE_NODE],
    ids=lambda path: path.stem,
)
def test_the_probe_keeps_what_the_rules_want(path: Path) -> None:
    """A line that tells of an event has one of the marks by which the probe selects."""
    for line in path.read_text().splitlines():
        event = parse_line(message_in(line))
        if event and event.kind != "gpu-reset":  # a program says that, and may say anything
            assert any(
                mark in line.encode() for sort in (*SORTS, *MORE_SORTS) for mark in sort
            ), line


@pytest.mark.parametrize(
    ("errors", "pending", "verdict"),
    [
        (0, False, "ok"),
        (2, False, "drain-when-idle"),
        (0, True, "drain-when-idle"),
        (None, False, "drain-when-idle"),
        (0, None, "drain-when-idle"),
    ],
    ids=["reset", "counted", "row waits", "not counted", "rows not read"],
)
def test_a_double_bit_error_is_settled_by_what_nvml_counts(
    errors: int | None,
    pending: bool | None,  # noqa: FBT001 - a column of the table
    verdict: str,
) -> None:
    """NVML counts from the last reset on: none there, and the line in the ring is history."""
    line = "NVRM: Xid (PCI:0000:1b:00): 48, pid=1, name=p, DBE (double bit error)"
    gpu = GpuFacts(0, pci="0000:1b:00.0", ecc_uncorrected=errors, remap_pending=pending)

    assert f"{verdict} xid gpu0" in verdicts(facts_of([line], gpu))


def test_a_lost_gpu_counts_again_after_its_reset() -> None:
    """An Xid 79 of before a driver load does not hide that the GPU is lost once more."""
    lines = [
        "NVRM: Xid (PCI:0000:b3:00): 79, GPU has fallen off the bus.",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.54.15",
        "NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.",
    ]

    assert verdicts(facts_of(lines)) == [
        "drain gpu-fell-off-bus 0000:b3:00.0",
        "ok xid 0000:b3:00.0",
    ]


IO_ERROR = "I/O error, dev nvme0n1, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0"
WATCHDOG = "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out"
TRANSMIT = "mlx5_core 0000:65:00.0 eth0: TX timeout detected"
TRIM = "critical target error, dev nvme0n1, sector 8 op 0x3:(DISCARD) flags 0x800 phys_seg 1"
OFTEN: dict[str, tuple[list[str], float, list[str]]] = {
    "a disk nine times in an hour": ([IO_ERROR] * 9, 300, ["warn disk-error nvme0n1"]),
    "ten times": ([IO_ERROR] * 10, 300, ["drain-when-idle disk-error nvme0n1"]),
    "ten times in ten days": ([IO_ERROR] * 10, 86_400, ["warn disk-error nvme0n1"]),
    "a drive that refuses to trim": ([TRIM] * 12, 1, ["warn disk-error nvme0n1"]),
    "an adapter three times": ([WATCHDOG] * 3, 600, ["drain-when-idle nic-fault eth0"]),
    "three times in three days": ([WATCHDOG] * 3, 86_400, ["warn nic-fault eth0"]),
    "its watchdog warned once only": (
        [WATCHDOG, TRANSMIT, TRANSMIT], 600, ["drain-when-idle nic-fault 0000:65:00.0"],
    ),
    "one time-out's lines": ([WATCHDOG, TRANSMIT, TRANSMIT], 0.1, ["warn nic-fault 0000:65:00.0"]),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "apart_s", "told"), OFTEN.values(), ids=OFTEN)
def test_what_happens_once_is_a_fault_when_it_is_often(
    lines: list[str], apart_s: float, told: list[str]
) -> None:
    """Within an hour: what adds up over a year's uptime is no fault."""
    assert verdicts(facts_of(spaced(lines, apart_s))) == told


HARMLESS: dict[str, tuple[list[str], list[str]]] = {
    "a page that was free": (
        ["Memory failure: 0xe16677: recovery action for free buddy page: Recovered"],
        ["warn host-memory-error page"],
    ),
    "a page that could not be saved": (
        ["Memory failure: 0xe16677: recovery action for dirty LRU page: Failed"],
        ["drain-when-idle host-memory-error page"],
    ),
    "a stick that is no Btrfs any more": (
        [
            "BTRFS error (device sdb1): superblock checksum mismatch",
            "BTRFS error (device sdb1: state C): open_ctree failed: -22",
        ],
        ["warn file-system-error sdb1", "warn file-system-error sdb1"],
    ),
    "a mounted one": (
        ["BTRFS error (device sda2): parent transid verify failed on logical 30408704"],
        ["drain-when-idle file-system-error sda2"],
    ),
    "another device's mount": (
        [
            "BTRFS error (device sda2): parent transid verify failed on logical 30408704",
            "BTRFS error (device sdb1): open_ctree failed",
        ],
        ["drain-when-idle file-system-error sda2", "warn file-system-error sdb1"],
    ),
}


@pytest.mark.parametrize(("lines", "told"), HARMLESS.values(), ids=HARMLESS)
def test_what_did_no_harm_costs_no_node(lines: list[str], told: list[str]) -> None:
    """A page taken out in time, a file system that was never mounted; and the near misses."""
    assert verdicts(facts_of(lines)) == told


XID_119 = "NVRM: Xid (PCI:0000:2b:00): 119, pid=1, name=p, Timeout waiting for RPC from GSP"
XID_13 = "NVRM: Xid (PCI:0000:2b:00): 13, pid=1, name=p, Graphics SM Warp Exception"
XID_45 = "NVRM: Xid (PCI:0000:2b:00): 45, pid=1, name=p, Ch 00000012"
RELOAD = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.54.15"
LS = "INFO: task ls:812 blocked for more than 120 seconds."
SMI = "INFO: task nvidia-smi:812 blocked for more than 120 seconds."
STUCK: dict[str, tuple[list[str], float, list[str]]] = {
    "after a GPU error": ([XID_119, LS], 200, ["driver-hung", "hung-task"]),
    "before it": ([LS, XID_119], 200, []),
    "after an application's error": ([XID_13, LS], 200, []),
    "right after a clean-up": ([XID_45, LS], 200, ["driver-hung", "hung-task"]),
    "hours after a clean-up": ([XID_45, LS], 9000, []),
    "after an error that a reload settled": ([XID_119, RELOAD, LS], 200, []),
    "on a file server": ([LS], 200, []),
    "the GPU stack itself": ([SMI], 200, ["driver-hung"]),
    "the GPU stack, long ago": ([SMI], 200_000, []),
}


@pytest.mark.parametrize(("lines", "apart_s", "told"), STUCK.values(), ids=STUCK)
def test_a_stuck_task_is_the_drivers_only_where_that_shows(
    lines: list[str], apart_s: float, told: list[str]
) -> None:
    """NVML is silent in all of them: slow once, beside an old `ls` on a file server, is no fault."""
    facts = facts_of(spaced(lines, apart_s))
    up_s = apart_s * (len(lines) + 1)

    found = judge(msgspec.structs.replace(facts, hung=("nvml",), up_s=up_s), NodeSettings())

    assert (
        sorted(one.check for one in found if one.check in {"driver-hung", "hung-task"}) == told
    )


def test_a_process_cannot_name_itself_harmless() -> None:
    """What a user calls a process stands in the line, and decides nothing."""
    line = (
        "NVRM: Xid (PCI:0018:01:00): 149, pid=1, name=x, Nonfatal, NETIR_LINK_EVT Fatal XC0 i0"
        " Link 09 (0x0)"
    )

    assert verdicts(facts_of([line])) == ["drain xid 0018:01:00.0"]


def test_a_storm_is_one_event() -> None:
    """A thousand lines of one Xid of one GPU are one event that counts them."""
    lines = [f"NVRM: Xid (PCI:0000:61:00): 45, pid=7, name=t, Ch {n:08x}" for n in range(1000)]

    (event,) = facts_of(lines).kernel_events or ()

    assert (event.count, event.sequence) == (1000, 999)


def test_a_lost_gpu_counts_once_when_its_xid_follows() -> None:
    """Text and Xid 79 of the same GPU are the same fault."""
    lines = [
        "NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:b3:00): 79, GPU has fallen off the bus.",
    ]

    assert verdicts(facts_of(lines)) == ["drain xid 0000:b3:00.0"]


def test_a_message_of_several_lines_in_one_record_is_joined() -> None:
    """The kernel keeps the lines of one message together; a log file does not."""
    message = (
        "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:26b5)\nNVRM: fallen off the bus"
    )

    assert verdicts(facts_of([message])) == ["drain gpu-fell-off-bus 0000:b3:00.0"]


def test_a_cleanup_is_settled_by_the_line_of_its_cause() -> None:
    """Xid 45 decides nothing where the Xid that caused it is there to decide."""
    lines = [
        "NVRM: Xid (PCI:0000:dc:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 01 (0x0)",
        "NVRM: Xid (PCI:0000:dc:00): 45, pid=1, name=p, Ch 1 caused by previous Xid 149",
    ]

    assert verdicts(facts_of(lines)) == ["warn xid 0000:dc:00.0", "ok xid 0000:dc:00.0"]


def test_an_injected_nvlink_error_is_a_test() -> None:
    """`i1` in an NVLink line marks an error that somebody injected."""
    line = "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i1 Link 09 (0x0)"

    assert verdicts(facts_of([line])) == ["ok xid 0018:01:00.0"]


def test_a_recorded_remap_is_settled_once_nothing_is_pending() -> None:
    """After the reset NVML says that no row waits, while the line is still in the ring."""
    line = "NVRM: Xid (PCI:0000:1b:00): 63, pid=1, Row Remapper: New row marked for remapping"
    gpu = GpuFacts(0, pci="0000:1b:00.0", uuid="GPU-0", remap_pending=False)

    assert verdicts(facts_of([line], gpu)) == ["ok xid gpu0"]


def test_a_repeated_nvlink_error_does_not_wait() -> None:
    """One Xid 74 waits until the node is idle, a second one does not."""
    line = "NVRM: Xid (PCI:0003:00:00): 74, NVLink: fatal error detected on link 14(0x0)"

    assert verdicts(facts_of([line, line])) == ["drain xid 0003:00:00.0"]


@pytest.mark.parametrize("code", ["off", "warn"])
def test_one_xid_can_be_set_apart(code: Level) -> None:
    """A site may know better about one code, and the others stay as they are."""
    lines = [
        "NVRM: Xid (PCI:0000:1b:00): 109, pid=1, name=p, CTX SWITCH TIMEOUT",
        "NVRM: Xid (PCI:0000:2b:00): 119, pid=1, name=p, Timeout waiting for RPC from GSP",
    ]

    findings = judge(facts_of(lines), NodeSettings(xids={109: code}))

    told = {one.subject: one.severity.value for one in findings}
    assert told.pop("0000:2b:00.0") == "drain-when-idle"
    assert told == ({} if code == "off" else {"0000:1b:00.0": "warn"})


@pytest.mark.parametrize(
    "text", ["0000:1b:00", "00000000:1B:00.0", "1b:00.0", "0000:1B:00.0", "1b:00"]
)
def test_every_spelling_of_a_pci_address_is_one_device(text: str) -> None:
    """The driver, NVML and lspci write the same address in their own ways."""
    assert normalised_pci(text) == "0000:1b:00.0"


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context",
        "mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838: ACCESS_REG(0x805) failed, err(-22)",
        "NVRM: Xid",
        "NVRM: Xid (PCI:): , ",
        "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Data {0x50610002, 0x10100030}",
        "",
    ],
)
def test_noise_is_no_event(line: str) -> None:
    """Lines that tell of no fault, or of half a one, are left alone."""
    assert parse_line(line) is None
