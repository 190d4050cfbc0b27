"""Rules about what the program itself does wrong."""

from slurm_resilience.diagnosis.rules.row import Row

PROGRAM_ROWS = (
    Row(
        "not-finite",
        r"(?:Rank (?P<rank>\d+): )?found (?:NaN|Inf)(?:.*, node: (?P<node>[\w.-]+))?|Loss (?:became infinite or|is) (?:NaN|nan)"
        r"|[Ll]oss is (?:nan|inf)\b|loss scale already at minimum|Unexpected result (?:nan|inf)|nan (?:loss|gradient)s? detected",
        "software", "same-nodes",
        "a value was not finite: resume from an older checkpoint once; the same step again is the program's,"
        " the same GPU again is the GPU's",
        "alibaba/Pai-Megatron-Patch#366",
        "AssertionError: Rank 11: found NaN in local grad norm in backward pass before data-parallel communication collective. Device: 3",
        accuses="named", weight=2, confidence="high",
    ),
    Row(
        "loader-died", r"DataLoader worker .* exited unexpectedly", "software", "same-nodes",
        "a loader worker ended and did not say why: memory, or an error in the data set",
        "FoNDUE-HTR/Documentation#13", "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly",
        "symptom", weight=0, confidence="low",
    ),
    Row(
        "worker-orphaned", r"reduction\.pickle\.load\(from_parent\)", "software", "same-nodes",
        "a process that was being spawned lost its parent: look for what ended that, often an object that"
        " cannot be pickled",
        "open-mmlab/mmdetection#5169", "self = reduction.pickle.load(from_parent)", "symptom", confidence="low",
        is_source=True,
    ),
    Row(
        "command-missing",
        r"line \d+: .*: (?:command not found|No such file or directory|Permission denied|cannot execute)"
        r"|execve\(\): (?!\S*slurm_script).*: (?:No such file or directory|Permission denied|Exec format error)",
        "user-error", "stop",
        "the batch script starts something that is not there: activate the environment, or mend the path",
        "SchedMD/slurm src/slurmd/slurmstepd", "slurmstepd: error: execve(): torchrun: No such file or directory",
        confidence="high", ended=(126, 127),
    ),
    Row(
        "library-missing", r"error while loading shared libraries: ", "user-error", "stop",
        "a shared library is not there: load its module or set LD_LIBRARY_PATH; where only some nodes say so,"
        " their software differs: exclude them",
        "FXIhub/condor#3",
        "spsim: error while loading shared libraries: libcudart.so.6.5: cannot open shared object file: No such file or directory",
        weight=2, confidence="high",
    ),
    Row(
        "extension-not-built", r"ninja: build stopped: |Error building extension '", "user-error", "stop",
        "a C++ or CUDA extension did not compile: mend compiler and CUDA_HOME, and build it before the job",
        "deepspeedai/DeepSpeed#6912", "RuntimeError: Error building extension 'fused_adam'",
    ),
    Row(
        "no-more-threads",
        r"(?:[Tt]hread creation|pthread_create) failed.*Resource temporarily unavailable|can't start new thread",
        "user-error", "stop",
        "no thread could be started: raise the limit (ulimit -u), or start fewer (OMP_NUM_THREADS, loader workers)",
        "QingyongHu/RandLA-Net#177", "libgomp: Thread creation failed: Resource temporarily unavailable", weight=2,
    ),
)  # fmt: skip
