"""Texts of slurm.conf, gres.conf and cgroup.conf; pure."""

from testbed.layout import Spec

CPUS = 4
MEMORY_MB = 4000
HEALTH_CHECKS = {"HealthCheckInterval": "30", "HealthCheckNodeState": "ANY,CYCLE"}
FIRST_WITH_CGROUP_PLUGIN = (22, 5)
FIRST_WITHOUT_CGROUPS = (23, 11)
"""From here on Slurm's cgroup support can be switched off where none of it is used."""


def slurm_conf(spec: Spec) -> str:
    """slurm.conf; what *spec* sets replaces a line of the same key."""
    settings = {
        "ClusterName": f"testbed{spec.instance}",
        "SlurmctldHost": f"ctl({spec.address('ctl')})",
        "SlurmUser": "slurm",
        "StateSaveLocation": "/var/spool/slurm/ctld",
        "SlurmdSpoolDir": "/var/spool/slurm/d",
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
        "SlurmdLogFile": "/var/log/slurm/slurmd.%n.log",
        "SlurmctldDebug": "verbose",
        "SlurmdDebug": "verbose",
        "ProctrackType": f"proctrack/{spec.proctrack}",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "MpiDefault": "none",
        "GresTypes": "gpu",
        "SlurmdParameters": "config_overrides",
        "SchedulerParameters": "nohold_on_prolog_fail,batch_sched_delay=0",
        "PrologFlags": "Alloc,Contain",
        "JobRequeue": "1",
        "KillWait": "5",
        "SlurmdTimeout": "10",
        "ReturnToService": "0",
        "DefMemPerCPU": "100",
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        **(hook_programs(spec.prefix) | HEALTH_CHECKS if spec.hooks else {}),
        **spec.slurm_conf,
    }
    lines = [f"{key}={value}" for key, value in settings.items()]
    gres = f" Gres=gpu:{spec.gpus}" if spec.gpus else ""
    node = f"CPUs={CPUS} RealMemory={MEMORY_MB}{gres} State=UNKNOWN"
    lines += [
        f"NodeName={name} NodeAddr={spec.address(name)} {node}" for name in spec.node_names
    ]
    partition = f"Nodes={','.join(spec.node_names)} MaxTime=INFINITE State=UP"
    lines += [
        f"PartitionName=all {partition} Default=YES PriorityTier=1 GraceTime=10",
        f"PartitionName=urgent {partition} PriorityTier=10 PreemptMode=OFF",
    ]
    return "\n".join(lines) + "\n"


def gres_conf(spec: Spec) -> str:
    """gres.conf: every node's GPUs by their device files."""
    if not spec.gpus:
        return ""
    last = spec.gpus - 1
    files = f"/dev/nvidia[0-{last}]" if last else "/dev/nvidia0"
    return f"NodeName={','.join(spec.node_names)} Name=gpu File={files}\n"


def cgroup_conf(version: tuple[int, int]) -> str:
    """cgroup.conf for a Slurm of that version; the plugin is named, so nothing is guessed."""
    if version < FIRST_WITH_CGROUP_PLUGIN:
        return "CgroupAutomount=no\n"
    if version < FIRST_WITHOUT_CGROUPS:
        return "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
    return "CgroupPlugin=disabled\n"


def hook_programs(prefix: str) -> dict[str, str]:
    """Key of slurm.conf -> the program that the product has installed for it."""
    share = f"{prefix}/share/slurm-resilience"
    return {
        "Prolog": f"{share}/prolog/slurm-resilience-prolog",
        "Epilog": f"{share}/epilog/slurm-resilience-epilog",
        "HealthCheckProgram": f"{share}/prolog/slurm-resilience-health",
    }
