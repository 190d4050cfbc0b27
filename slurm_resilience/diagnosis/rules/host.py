"""Rules about memory, storage and checkpoints, and about how processes end."""

from slurm_resilience.diagnosis.rules.row import TOLD_STATUS, Row

_SHM = r"(?:/dev/shm\b|posix_fallocate|shared memory)"
"""NCCL and torch name so what no disk holds."""

STORAGE_ROWS = (
    Row(
        "quota", r"Disk quota exceeded|EDQUOT|\[Errno 122\]", "storage", "hold",
        "free some of the quota, then release the job", "open-mmlab/mmdetection#12069",
        "OSError: [Errno 122] Disk quota exceeded", weight=2, confidence="high",
    ),
    Row(
        "disk-full", rf"^(?!.*{_SHM}).*(?:No space left on device|ENOSPC|\[Errno 28\]|StorageFull)", "storage", "hold",
        "free some space, then release the job", "hiyouga/LlamaFactory#5155",
        'safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })',
        weight=2, confidence="high",
    ),
    Row(
        "write-failed", r"PytorchStreamWriter failed|write\(\): fd \d+ failed|RuntimeError: File \S+ cannot be opened", "storage", "hold",
        "a checkpoint could not be written, most often for want of space: look, then release the job",
        "hiyouga/LlamaFactory#1223",
        "RuntimeError: [enforce fail at inline_container.cc:445] . PytorchStreamWriter failed writing file data/176: file write failed",
    ),
    Row(
        "storage-io",
        r"\[Errno (?:5|107|108|116|121)\]|Input/output error|Stale (?:NFS )?file handle|Remote I/O error"
        r"|Transport endpoint is not connected|Cannot send after transport endpoint shutdown|I/O error, dev ",
        "storage", "same-nodes", "a file system failed while it was read or written",
        "hiyouga/LlamaFactory#3388", "OSError: [Errno 116] Stale file handle: '/path/to/datasets/text/'",
    ),
    Row(
        "read-only", r"Read-only file system|\[Errno 30\]", "storage", "hold",
        "a file system takes no writing: a fault made it read-only, or the path lies in an image or mount that"
        " is; look, then release the job",
        "OlafenwaMoses/ImageAI#594", "OSError: [Errno 30] Read-only file system: '/path/to/models'",
    ),
    Row(
        "file-locks", r"No locks available|\[Errno 37\]|errno = 37\b", "storage", "hold",
        "the file system gives no locks: mount it with them (Lustre: flock), take another place, or"
        " HDF5_USE_FILE_LOCKING=FALSE",
        "h5py/h5py#1082",
        "OSError: Unable to create file (unable to lock file, errno = 37, error message = 'No locks available')",
    ),
    Row(
        "object-store",
        r"Curl returned error code \d|EndpointConnectionError|botocore\.exceptions\.(?:Connect|Read|HTTP)\w*(?:Error|Timeout)",
        "network", "same-nodes", "an object store (S3) did not answer: look at the network and the store's name",
        "tensorflow/tensorflow#24357",
        "2018-12-14 01:13:58.715801: E tensorflow/core/platform/s3/aws_logging.cc:60] Curl returned error code 28",
        weight=0,
    ),
    Row(
        "tracker-away", r"wandb\.errors\.[\w.]+: .*[Cc]ommunicat", "network", "same-nodes",
        "the tracker of experiments did not answer: WANDB_MODE=offline writes to disk instead",
        "wandb/wandb#1287",
        "wandb.errors.error.Error: Couldn't communicate with backend after 15 seconds", weight=0,
    ),
    Row(
        "not-downloaded", r"\bLocalEntryNotFoundError: .*outgoing traffic has been disabled|\bOfflineModeIsEnabled: ", "user-error", "stop",
        "a model or a data set is not in the local cache, and to fetch it is forbidden (HF_HUB_OFFLINE): fetch it"
        " before the run, or mend HF_HOME",
        "huggingface/huggingface_hub src/huggingface_hub/_snapshot_download.py",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the specified revision on the local disk and outgoing traffic has been disabled.",
    ),
    Row(
        "download-failed",
        r"Max retries exceeded with url|NameResolutionError|failure in name resolution|getaddrinfo failed"
        r"|Couldn't reach |Connection error, and we cannot find|thrown while requesting (?:GET|HEAD)"
        r"|HTTPSConnectionPool\(.*timed out|\bLocalEntryNotFoundError: ",
        "network", "same-nodes",
        "something was to be had from the Internet and did not come: fetch models and data before the run,"
        " as compute nodes often see no Internet",
        "huggingface/datasets#1594",
        "ConnectionError: Couldn't reach https://raw.githubusercontent.com/huggingface/datasets/boolq.py",
        "symptom", weight=0,
    ),
)  # fmt: skip

MEMORY_ROWS = (
    Row(
        "shared-memory",
        r"insufficient shared memory|killed by signal: Bus error|out of shared memory"
        rf"|Error while creating shared memory segment|{_SHM}.*No space left on device",
        "memory", "stop",
        "shared memory is full: fewer loader workers, or look for leftovers in /dev/shm",
        "msr-fiddle/pipedream#28", "RuntimeError: DataLoader worker (pid 325) is killed by signal: Bus error.",
        weight=2, confidence="high",
    ),
    Row(
        "host-memory",
        r"oom[_-]kill(?:er|ed)?\b|Out of memory: Kill|invoked oom-killer|OOM Killed|exceeded memory limit"
        r"|Exceeded (?:job|step) memory limit|Memory cgroup out of memory"
        r"|srun: error: (?P<node>[\w.\[\],-]+): tasks? [\d,-]+: Out Of Memory",
        "memory", "stop", "the node's memory ran out: ask for more (--mem) or use less",
        "nextflow-io/nextflow#5932",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=11300781.0. Some of the step tasks have been OOM Killed.",
        accuses="named", weight=2, confidence="high",
    ),
    Row(
        "host-memory", r"node (?:with IP|\(IP:) ?(?P<node>\d+(?:\.\d+){3}).*(?:exceeds|memory usage threshold)",
        "memory", "stop", "Ray ended a task before the node's memory ran out: ask for more (--mem) or use less",
        "ray-project/ray#27716",
        "(raylet) node_manager.cc:2963: System memory low at node with IP 10.0.0.2. Used memory (23.63GB) / total capacity (33.28GB) (0.709971) exceeds threshold 0.7, killing latest task with name Leaker.__init__ to avoid running out of memory.",
        accuses="named", weight=2, confidence="high",
    ),
    Row(
        "host-memory", r"ray\.exceptions\.OutOfMemoryError|\bOutOfMemoryError: Task was killed", "memory", "stop",
        "Ray ended a task before its node's memory ran out: ask for more (--mem) or use less",
        "ray-project/ray python/ray/exceptions.py",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        weight=2, confidence="high",
    ),
    Row(
        "loader-killed", r"DataLoader worker .* is killed by signal: Killed|DataLoader process .* killed by signal: Killed",
        "memory", "stop",
        "a loader worker was killed, most often for want of memory: fewer workers, or more --mem",
        "hezhangsprinter/DCPDN#12", "RuntimeError: DataLoader worker (pid 19597) is killed by signal: Killed.",
    ),
    Row(
        "host-allocation",
        r"^(?!.*(?:libfabric:|ibv_)).*(?:Cannot allocate memory|\[Errno 12\])|std::bad_alloc|DefaultCPUAllocator: can't allocate memory"
        r"|^(?:\[rank\d+\]: |\d+: ?)?(?:[\w.]+\.)?(?:_Array)?MemoryError\b",
        "memory", "stop", "an allocation failed: ask for more memory (--mem) or use less",
        "pytorch: c10/core/impl/alloc_cpu.cpp",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:114] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes.",
    ),
    Row(
        "open-files", r"Too many open files|\[Errno 24\]", "user-error", "stop",
        "the limit of open files was reached: raise `ulimit -n`, or share tensors by file_system",
        "facebookresearch/maskrcnn-benchmark#158", "OSError: [Errno 24] Too many open files", weight=2,
        confidence="high",
    ),
    Row(
        "shared-object", r"unable to (?:open|mmap|allocate) shared memory", "memory", "same-nodes",
        "a tensor in shared memory was lost: /dev/shm is full, a worker died, or files ran out",
        "pytorch/pytorch#14768",
        "RuntimeError: unable to open shared memory object </torch_34609_1792353697> in read-write mode",
    ),
)  # fmt: skip

CHECKPOINT_ROWS = (
    Row(
        "checkpoint-damaged",
        r"PytorchStreamReader failed|CheckpointLoadError: |failed finding central directory"
        r"|Error while deserializing(?: header)?: (?:Metadata|Header|Invalid)|MetadataIncompleteBuffer"
        r"|pickle data was truncated|unexpected EOF, expected \d+ more bytes",
        "checkpoint", "same-nodes",
        "a checkpoint does not load, most often as it is half written: resume from an older one",
        "open-mmlab/mmdetection#4835",
        "RuntimeError: [enforce fail at inline_container.cc:144] . PytorchStreamReader failed reading zip archive: failed finding central directory",
        weight=2, confidence="high",
    ),
    Row(
        "checkpoint-damaged", r"EOFError: Ran out of input$", "checkpoint", "same-nodes",
        "a pickle ends before its end, most often a checkpoint that is half written: resume from an older one",
        "NTT123/vietTTS#28", "EOFError: Ran out of input", "symptom", weight=0,
    ),
    Row(
        "checkpoint-unfit", r"Error\(s\) in loading state_dict for|size mismatch for \S+: copying a param", "user-error", "stop",
        "the checkpoint is of another model: mend the model's settings or the path",
        "Spijkervet/BYOL#5", "RuntimeError: Error(s) in loading state_dict for ResNet:",
        weight=2, confidence="high",
    ),
    Row(
        "checkpoint-place", r"CheckpointPlaceError: ", "user-error", "stop",
        "the directory of checkpoints cannot be used", "slurm_resilience.errors",
        "slurm_resilience.errors.CheckpointPlaceError: /ckpt holds no checkpoint", confidence="high",
    ),
    Row(
        "checkpoint-in-use", r"CheckpointInUseError: ", "user-error", "stop",
        "the directory of checkpoints is somebody else's", "slurm_resilience.errors",
        "slurm_resilience.errors.CheckpointInUseError: /ckpt: job 7 writes to it", confidence="high",
    ),
    Row(
        "checkpoint-version", r"CheckpointVersionError: ", "user-error", "stop",
        "a newer slurm_resilience has saved there: install that one", "slurm_resilience.errors",
        "slurm_resilience.errors.CheckpointVersionError: n1: /ckpt/step-000000005 was written by a newer slurm_resilience",
        confidence="high",
    ),
    Row(
        "checkpoint-not-saved", r"CheckpointSaveError: ", "storage", "same-nodes",
        "the last checkpoint could not be written", "slurm_resilience.errors",
        "slurm_resilience.errors.CheckpointSaveError: step 9 is not saved: rank 1 is gone",
    ),
    Row(
        "checkpoint-copy", r"CheckpointCopyError: ", "storage", "same-nodes",
        "copies of checkpoints cannot be fetched", "slurm_resilience.errors",
        "slurm_resilience.errors.CheckpointCopyError: nothing fetched from s3://bucket/x",
    ),
    Row(
        "checkpoint", r"CheckpointError: ", "checkpoint", "same-nodes",
        "it ended over its checkpoints", "slurm_resilience.errors",
        "slurm_resilience.errors.CheckpointError: step 9: no",
    ),
)  # fmt: skip

_SIGNALLED = r"(?:srun: error: \S+: tasks? [\d,-]+|\S: line \d+): +(?:\d+ )?{0}\b"
"""A signal as srun and bash name it, in the words of strsignal(3)."""

PROCESS_ENDS = (
    Row(
        "killed",
        TOLD_STATUS.format("-9|137") + r"|Signal 9 \(SIGKILL\)|(?:Signals\.|with signal )SIGKILL\b"
        r"|^Killed$|: +\d+ Killed +\S|: line \d+: +\d+ Killed|srun: error: \S+: tasks? [\d,-]+: Killed$",
        "memory", "same-nodes",
        "a process was killed (KILL): most often the node's memory ran out; where it comes back, ask for"
        " more memory",
        "hpcaitech/ColossalAI#3514",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 812917) of binary: /path/to/python",
        "symptom", "named",
    ),
    Row(
        "bus-error",
        TOLD_STATUS.format("-7|135") + r"|Signal 7 \(SIGBUS\)|(?:Signals\.|with signal )SIGBUS\b|Bus error \(core dumped\)|Fatal Python error: Bus error|"
        + _SIGNALLED.format("Bus error"),
        "memory", "same-nodes", "a process died of SIGBUS: /dev/shm may be full",
        "deepspeedai/DeepSpeed#4000",
        "[2023-07-20 15:45:13,982] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python3', '--local_rank=1'] exits with return code = -7",
        "symptom", "named",
    ),
    Row(
        "segfault",
        TOLD_STATUS.format("-11|139") + r"|Signal 11 \(SIGSEGV\)|SIGSEGV\b|[Ss]egmentation fault"
        r"|killed by signal: Segmentation fault",
        "software", "same-nodes",
        "a process died of SIGSEGV: a library that does not fit, or a bug in native code",
        "CVMI-Lab/Point-UV-Diffusion#5",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) local_rank: 0 (pid: 2977223) of binary: /path/to/python",
        "symptom", "named",
    ),
    Row(
        "illegal-instruction",
        TOLD_STATUS.format("-4|132") + r"|Signal 4 \(SIGILL\)|(?:Signals\.|with signal )SIGILL\b|\bIllegal instruction\b",
        "user-error", "stop",
        "the program was built for another processor than this node's: build it for the oldest node, or ask"
        " for the right ones (--constraint)",
        "aldro61/kover#42", "/var/spool/slurmd/job00042/slurm_script: line 13: 51804 Illegal instruction (core dumped)",
        "symptom", "named",
    ),
    Row(
        "arithmetic-signal",
        TOLD_STATUS.format("-8|136") + r"|Signal 8 \(SIGFPE\)|(?:Signals\.|with signal )SIGFPE\b|\bFloating point exception\b",
        "software", "same-nodes", "a process died of SIGFPE: a whole number was divided by zero in native code",
        "rohanchandra30/TrackNPred#7", "Floating point exception (core dumped)", "symptom", "named",
    ),
    Row(
        "heap-damaged",
        r"double free or corruption|(?:malloc|free|realloc|munmap_chunk)\(\): (?:\S+ )*(?:corrupt|invalid)"
        r"|corrupted (?:size vs|double-linked)|stack smashing detected",
        "software", "same-nodes", "native code wrote where it must not: a library that does not fit, or a bug in it",
        "MendelXu/SAN#6",
        "*** Error in `/path/to/bin/python': double free or corruption (!prev): 0x000055bbaca66830 ***", "symptom",
    ),
    Row(
        "abort",
        TOLD_STATUS.format("-6|134") + r"|Signal 6 \(SIGABRT\)|(?:Signals\.|with signal )SIGABRT\b|^Aborted \(core dumped\)"
        r"|\bterminate called (?:after throwing|without an active)|" + _SIGNALLED.format("Aborted"),
        "software", "same-nodes", "a process called abort; the lines before say why, where anything does",
        "pytorch/pytorch#126544",
        "E0517 08:24:03.805000 140617718325696 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: -6) local_rank: 0 (pid: 970611) of binary: /path/to/python3",
        "fallout", "named", 0,
    ),
)  # fmt: skip
