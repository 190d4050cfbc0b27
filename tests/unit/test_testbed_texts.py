"""What the testbed writes for Slurm and reads from it."""

from testbed import identity
from testbed.inside import parse_oneliner
from testbed.layout import Spec
from testbed.slurm_conf import gres_conf, slurm_conf


def test_own_settings_replace_the_testbeds() -> None:
    """A key of slurm.conf stands once, with the value that was asked for."""
    text = slurm_conf(
        Spec(hooks=False, slurm_conf={"KillWait": "30", "BatchStartTimeout": "20"})
    )

    assert [line for line in text.splitlines() if line.startswith("KillWait")] == [
        "KillWait=30"
    ]
    assert "BatchStartTimeout=20" in text.splitlines()
    assert "Prolog=" not in text


def test_every_gpu_has_a_device_file() -> None:
    """gres.conf names as many device files as slurm.conf counts GPUs."""
    assert "File=/dev/nvidia[0-7]\n" in gres_conf(Spec(gpus=8))
    assert "File=/dev/nvidia0\n" in gres_conf(Spec(gpus=1))
    assert gres_conf(Spec(gpus=0)) == ""


def test_users_of_the_cluster_replace_their_namesakes() -> None:
    """An alice of the real machine, or her user id, does not get into the cluster."""
    real = (
        "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nx:x:61002:5::/:/x\n"
    )

    lines = identity.passwd(real).splitlines()

    assert [line.split(":")[0] for line in lines] == ["root", "alice", "bob"]
    assert "alice:x:61001:61001::/shared/home/alice:/bin/bash" in lines


def test_reason_with_blanks_and_equal_signs_stays_whole() -> None:
    """A value of scontrol's reaches up to the next key."""
    line = "NodeName=n1 State=IDLE+DRAIN Reason=slurm-resilience: x gpu3: a=1 b [root@t] Weight=1\n"

    fields = parse_oneliner(line)

    assert fields["Reason"] == "slurm-resilience: x gpu3: a=1 b [root@t]"
    assert fields["Weight"] == "1"
