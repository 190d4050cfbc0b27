"""From what was read to what an administrator is told to do: by the fault itself, not by its check."""

import pytest

from slurm_resilience.node.facts import GpuFacts, NodeFacts
from slurm_resilience.node.kernel_lines import parse_records
from slurm_resilience.node.policy import decide_node
from slurm_resilience.node.policy.lifting import needs_a_person
from slurm_resilience.node.policy.reason import parse_reason
from slurm_resilience.node.policy.standing import Drain, History, Situation, Standing
from slurm_resilience.node.policy.strikes import Thing
from slurm_resilience.node.rules import judge
from slurm_resilience.node.settings import NodeSettings

RECOVERY = "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"


def drained_for(xid: str = "", recovery_action: int = 0) -> str:
    """The reason of a drain for one line of the kernel log, or the driver's own word."""
    records = [(100, 5_000_000, f"NVRM: Xid (PCI:0000:1b:00): {xid}")] if xid else []
    facts = NodeFacts(
        "n1",
        gpus=(GpuFacts(0, uuid="GPU-0", pci="0000:1b:00.0", recovery_action=recovery_action),),
        kernel_events=parse_records(records),
    )
    found = judge(facts, NodeSettings())
    now = Situation("n1", "health", found, Standing(drained=False), History("boot"))
    decision = decide_node(now)
    assert isinstance(decision, Drain)
    return decision.reason.removeprefix("slurm-resilience: ").removesuffix(" [boot boot]")


@pytest.mark.parametrize(
    ("xid", "reason"),
    [
        (
            "79, GPU has fallen off the bus.",
            "xid gpu0: Xid 79 GPU has fallen off the bus.; reboot",
        ),
        ("64, Failed to remap row", "xid gpu0: Xid 64 Failed to remap row; repair"),
        ("119, Timeout after 6s of waiting for RPC", "xid gpu0: Xid 119 Timeout after 6s of waiting for RPC; reset"),
        ("48, DBE", "xid gpu0: Xid 48 DBE; reset"),
        ("74, NVLink: fatal error", "xid gpu0: Xid 74 NVLink: fatal error (look at the NVLinks); reset"),
        (RECOVERY, f"xid gpu0: Xid {RECOVERY.replace(',', '', 1)}; reboot"),
    ],
    ids=["off-the-bus", "no-spare-row", "gsp", "double-bit", "nvlink", "driver-asks"],
)  # fmt: skip
def test_an_xid_asks_for_what_nvidia_says(xid: str, reason: str) -> None:
    """Once, in the word that stands at the end of every reason."""
    assert drained_for(xid) == reason


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (1, "recovery-action gpu0: the driver asks for GPU_RESET (GPU-0); reset"),
        (2, "recovery-action gpu0: the driver asks for NODE_REBOOT (GPU-0); reboot"),
        (7, "recovery-action gpu0: the driver asks for SYSTEM_REBOOT (GPU-0); reboot"),
    ],
)
def test_the_driver_asks_by_nvidias_word(action: int, reason: str) -> None:
    """A node that needs a reboot is not told to reset a GPU."""
    assert drained_for(recovery_action=action) == reason


def test_a_row_without_a_spare_waits_for_a_person() -> None:
    """No health check gives a GPU back that no reset mends: all that Slurm keeps is the reason."""
    held = parse_reason(f"slurm-resilience: {drained_for('64, Failed to remap row')}")

    assert held
    assert "repair" in needs_a_person(held, (), Thing("gpu0"))
