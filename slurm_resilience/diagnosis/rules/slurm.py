"""Rules about what Slurm prints: slurmstepd, srun, its container plugin, scontrol and sacct."""

from slurm_resilience.diagnosis.rules.row import Row

_ENDED = r"\*\*\* (?:JOB|STEP) .*CANCELLED AT .*DUE TO "

SLURM_STATES = (
    Row(
        "slurm-time-limit", _ENDED + r"TIME LIMIT|JobState=TIMEOUT|\|TIMEOUT\|", "time-limit",
        "same-nodes", "the time limit was reached; requeue, and resume from the last checkpoint",
        "Lightning-AI/pytorch-lightning#20542",
        "slurmstepd: error: *** STEP 55595933.0 ON node17 CANCELLED AT 2025-01-10T15:27:25 DUE TO TIME LIMIT ***",
        "state", weight=2, confidence="high",
    ),
    Row(
        "slurm-preempted", _ENDED + r"PREEMPTION|JobState=PREEMPTED|\|PREEMPTED\|", "preemption", "leave",
        "Slurm took the nodes for another job and brings this one back where PreemptMode=REQUEUE",
        "facebookincubator/submitit#1613",
        "slurmstepd: error: *** JOB 37361369 ON node46 CANCELLED AT 2021-03-15T18:00:46 DUE TO PREEMPTION ***",
        "state", weight=2, confidence="high",
    ),
    Row(
        "slurm-requeued", _ENDED + r"JOB REQUEUE|JobState=REQUEUED|\|REQUEUED\|", "requeued", "leave",
        "the job was requeued already; do not do it again", "Slurm 22.05.8",
        "slurmstepd-n1: error: *** JOB 5 ON n1 CANCELLED AT 2026-12-01T00:55:55 DUE TO JOB REQUEUE ***",
        "state", weight=2, confidence="high",
    ),
    Row(
        "node-failure",
        r"(?:srun|salloc|sbatch): error: Node failure on (?P<node>\S+)|" + _ENDED
        + r"NODE FAILURE|JobState=NODE_FAIL|\|NODE_FAIL\|",
        "hardware", "exclude-node",
        "Slurm lost a node; with --requeue it brings the job back by itself, without that node",
        "SchedMD/slurm src/api/step_launch.c", "srun: error: Node failure on node07",
        "state", "named", 2, "high",
    ),
    Row(
        "slurm-out-of-memory", r"JobState=OUT_OF_MEMORY|\|OUT_OF_ME", "memory", "stop",
        "the job's memory ran out: ask for more (--mem) or use less", "Slurm: sacct(1)",
        "4242|OUT_OF_MEMORY|0:125", "state", weight=2, confidence="high",
    ),
    Row(
        "slurm-boot-failed", r"JobState=BOOT_FAIL|\|BOOT_FAIL\|", "hardware", "exclude-node",
        "a node did not boot", "Slurm: sacct(1)", "4242|BOOT_FAIL|0:0", "state", weight=2,
    ),
)  # fmt: skip

SLURM_CAUSES = (
    Row(
        "slurm-credential", r"failed on node (?P<node>\S+): (?:Invalid job credential|Security violation)",
        "software", "exclude-node",
        "munge or the clock of this node is wrong; where all nodes say so, the job must wait for an"
        " administrator",
        "NVIDIA/deepops#1179",
        "srun: error: Task launch for StepId=13.0 failed on node node02: Invalid job credential",
        accuses="named", weight=2, confidence="high",
    ),
    Row(
        "slurm-credential", r"[Mm]unge (?:encode|decode) failed|munge\.socket",
        "software", "exclude-node",
        "munge does not run on this node or has another key; where all nodes say so, the job must wait for an"
        " administrator",
        "Azure/az-hop#656",
        'auth/munge: slurm_auth_create: Munge encode failed: Failed to access "/var/run/munge/munge.socket.2": No such file or directory',
        accuses="reporter", weight=2, confidence="high",
    ),
    Row(
        "slurm-layout",
        r"Unable to layout tasks on given cpus|failed to distribute tasks|Requested node configuration is not available"
        r"|Invalid generic resource \(gres\)|Memory required by task is not available|More processors requested than permitted"
        r"|Invalid numeric value|CPU count per node can not be satisfied|Requested partition configuration not available"
        r"|[Ii]nvalid (?:partition|account|qos|QOS|reservation|node name|feature) "
        r"|Memory specification can not be satisfied|submission failed: Job violates accounting/QOS policy"
        r"|(?:sbatch|srun|salloc): fatal: .* mutually exclusive",
        "user-error", "stop", "Slurm cannot place what was asked for: mend tasks, CPUs, memory or GPUs",
        "snakemake/snakemake-executor-plugin-slurm#225",
        "srun: error: Task launch for StepId=125452.4 failed on node node01: Unable to layout tasks on given cpus",
        weight=2, confidence="high",
    ),
    Row(
        "slurm-launch-unanswered",
        r"Task launch for .*failed on node (?P<node>\S+): (?:Socket timed out|Communication connection failure"
        r"|Zero Bytes|Transport endpoint|Unable to contact|No route|Connection refused|Slurmd could not)",
        "hardware", "exclude-node",
        "slurmd on this node does not answer: node, network, munge or clock",
        "geopm/geopm#1020",
        "srun: error: Task launch for 73706.26 failed on node node32: Communication connection failure",
        accuses="named", weight=2,
    ),
    Row(
        "slurm-launch-failed",
        r"Task launch for .*failed on node (?P<node>\S+): |srun: error: tasks? \S+ launch failed: ",
        "software", "exclude-node", "a step could not start on this node; slurmd's log there says why",
        "NVIDIA/pyxis#107", "srun: error: Task launch for StepId=96.0 failed on node n2: No such process",
        accuses="named",
    ),
    Row(
        "slurm-controller-away", r"Unable to contact slurm controller"
        r"|Unable to confirm allocation(?!.*: (?:Job is pending|Invalid job id|Job/step already))",
        "software", "same-nodes", "slurmctld did not answer when a step was to start",
        "ArjunaCluster/ArjunaUsers#100",
        "srun: error: Unable to confirm allocation for job 60564: Unable to contact slurm controller (connect failure)",
    ),
    Row(
        "container-image",
        r"FATAL: .*(?:could not open image|unable to open image|image .*no such file)|pyxis: failed to import docker image|enroot-switchroot: failed to execute|pyxis: .*(?:No such file or directory|not found in registry|unauthorized)",
        "user-error", "stop", "the container image cannot be had or lacks what starts it: mend the image or its name",
        "NVIDIA/pyxis#61",
        "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory",
        weight=2,
    ),
    Row(
        "container-node",
        r"no loop devices available|Couldn't determine user account information|container_[gp]_join",
        "software",
        "exclude-node",
        "this node cannot start containers: its accounts, loop devices or job_container plugin need a look",
        "apptainer/apptainer#344",
        "FATAL:   container creation failed: mount error: while mounting image: failed to find loop device: could not attach image file to loop device: no loop devices available",
        accuses="reporter",
        weight=2,
    ),
    Row(
        "container-start",
        r"pyxis: (?:couldn't start container|container start failed|child \d+ failed)|nvidia-container-cli: .*error"
        r"|FATAL: +container creation failed|squashfuse\w* (?:failed to mount|exited)",
        "software", "same-nodes",
        "the container did not start; where only some nodes fail, exclude them and look at their driver and disk",
        "NVIDIA/pyxis#135", "slurmstepd-node16: error: pyxis: couldn't start container",
    ),
    Row(
        "batch-script-not-started",
        r"execve\(\): \S*slurm_script: |_forkexec_slurmstepd|Could not launch job",
        "software",
        "exclude-node",
        "slurmd on this node could not start the batch script: its spool folder, disk or memory needs a look",
        "ArjunaCluster/ArjunaUsers#46",
        "slurmstepd: error: execve(): /tmp/slurmd/job00089/slurm_script: No such file or directory",
        accuses="reporter",
        weight=2,
    ),
    Row(
        "prolog-failed", r"Prolog failure on node (?P<node>\S+)", "software", "exclude-node",
        "this node's prolog failed before the program began; Slurm has drained the node and says why there",
        "AMDResearch/hpcfund#69", "salloc: Prolog failure on node node06", accuses="named", weight=2,
        confidence="high",
    ),
    Row(
        "prolog-failed", r"[Pp]rolog (?:error|failed|failure)|Failed to invoke spank plugin|TaskProlog failed",
        "software", "exclude-node", "the node's prolog or a plugin of Slurm failed before the program began",
        "SchedMD/slurm src/slurmd", "slurmstepd: error: Failed to invoke spank plugin stack",
        accuses="reporter", weight=0,
    ),
)  # fmt: skip

SLURM_ENDS = (
    Row(
        "slurm-cancelled",
        r"\*\*\* JOB .*CANCELLED AT \S+(?: \*\*\*| DUE to SIGNAL)|JobState=CANCELLED|\|CANCELLED",
        "cancelled", "stop",
        "somebody cancelled the job; ask sacct where that is not so, as a notice of preemption looks alike",
        "facebookincubator/submitit#1677",
        "slurmstepd: error: *** JOB 71613 ON node36 CANCELLED AT 2022-03-31T21:25:40 ***",
        "outside", weight=2,
    ),
    Row(
        "step-cancelled", r"\*\*\* STEP .*CANCELLED AT \S+(?: \*\*\*| DUE to SIGNAL)",
        "cancelled", "ask-slurm",
        "the step was told to end: a cancel or the notice of a preemption; Slurm's record tells which",
        "facebookincubator/submitit#1613",
        "slurmstepd: error: *** STEP 37361369.0 ON node46 CANCELLED AT 2021-03-15T17:50:23 ***",
        "outside", confidence="low",
    ),
    Row(
        "terminated",
        r"Received (?:Signals\.SIG(?:TERM|HUP|INT)|1|2|15) death signal|got signal: (?:1|2|15)\b"
        r"|Received SIGTERM: 15|Process got signal: 15",
        "cancelled", "ask-slurm",
        "the launcher was told to end: a cancel, a preemption or a closed terminal. No node is at fault;"
        " Slurm's record tells which",
        "pytorch/pytorch#114097",
        "W0823 16:54:02.337000 139733055988160 torch/distributed/elastic/agent/server/api.py:688] Received Signals.SIGTERM death signal, shutting down workers",
        "outside", confidence="low",
    ),
    Row(
        "signal-bypassed", r"\b[Bb]ypassing (?:signal )?(?:SIGTERM|sigterm)", "cancelled", "ask-slurm",
        "Lightning was told to end and did not: a cancel or a preemption, or its own loader workers at an"
        " epoch's end; Slurm's record tells which",
        "Lightning-AI/pytorch-lightning#5969", "bypassing sigterm", "exit", confidence="low",
    ),
    Row(
        "task-exit", r"srun: error: (?P<node>[\w.\[\],-]+): tasks? [\d,-]+: Exited with exit code [1-9]",
        "unknown", "stop",
        "a task ended with an error and the text does not say why; read its own output before a retry",
        "meta-pytorch/torchx#486", "srun: error: node01: task 0: Exited with exit code 1",
        "exit", "named", confidence="low",
    ),
)  # fmt: skip
