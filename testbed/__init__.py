"""
A real Slurm cluster on one machine: slurmctld, slurmd and munge of the installed packages.

    from testbed import Cluster

    with Cluster.up(nodes=4, gpus=8) as cluster:
        job = cluster.sbatch(["-N2", "--gpus-per-node=1", "--wrap", "srun hostname"])
        cluster.wait_for_job(job, "COMPLETED")
        print((cluster.home("alice") / f"slurm-{job}.out").read_text())

or, for people, `python -m testbed --help`. It needs root and Debian's or Ubuntu's packages.

Each node, and `ctl` (slurmctld's machine and the users' login node), is a set of namespaces with
its own processes, network, host name, boot id and files: whatever is written there, outside
/shared, /var/lib/slurm-resilience and Slurm's spool, is gone with its power. The users alice and
bob exist only inside; their homes are on /shared, which every node sees. What `cluster.shared`
and `cluster.home` name is the same path inside and outside.

Faults come from outside, through `cluster.nodes["n2"]`:

    gpu(3).set(ecc_uncorrected=1)      what NVIDIA's library says; see `gpus.Gpu.set`
    kmsg("NVRM: Xid …")                a line in the kernel log
    sysfs / "class/…"                  plain files at the product's `paths.sysfs`
    link(delay_ms=50, loss=0.01)       its network; link_down(), link_up()
    power_off(), power_on()            no good-bye; a new boot
    pids(…), ranks(), freeze(…)        its processes, as this machine sees them
    small_disk(…), fill_disk(…), read_only(…), hung_disk(…)

`cluster.reset()` undoes all that, so that many tests share one cluster.

Nothing outlives its owner: one process has started all others, and the kernel kills them, and
with them every namespace, mount and link, the moment it is gone. Files and empty cgroups of a
killed cluster are removed by the next `up` or `down` of the same instance.
"""

from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.layout import Spec
from testbed.nodes import Node

__all__ = ["Cluster", "Node", "Spec", "TestbedError"]
