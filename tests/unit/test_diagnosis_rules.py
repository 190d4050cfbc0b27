"""The rules one by one, and what `--explain` and the page say of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.diagnosis.log_file import NEAR_WORDS
from slurm_resilience.diagnosis.rules import ALL, MISUSED, ROWS, explained, row_of
from slurm_resilience.diagnosis.rules.row import Row
from tests.patterns import examples

ROOT = Path(__file__).parents[2]


def name(row: Row) -> str:
    return f"{row.id}-{ALL.index(row)}"


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_rule_meets_the_line_that_it_was_learnt_from(row: Row) -> None:
    """And no earlier rule takes that line away."""
    found = row_of(row.line)

    assert found is not None
    assert (found.id, found.class_, found.retry) == (row.id, row.class_, row.retry)


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_what_meets_a_rule_is_found_in_a_file(row: Row) -> None:
    """Lines are only cut out around a few words: whatever a rule asks for holds one of them."""
    texts = {row.line, *examples(row.pattern)}

    assert not [text for text in texts if not any(word in text.encode() for word in NEAR_WORDS)]


@pytest.mark.parametrize("row", ALL, ids=name)
def test_a_rule_can_be_explained(row: Row) -> None:
    """It has advice, and, where a line can meet it, a source."""
    assert row.advice
    assert row in explained(row.id)
    assert row.source or not row.line


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        (
            "node01:1:2 [1] transport/net_ib/p2p.cc:648 NCCL WARN NET/IB: Got completion from peer 10.0.0.13<40554> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RECV_RDMA_WITH_IMM(129) vendor_err=129",
            "fabric",
        ),
        (
            "NCCL WARN NET/IBP: Got completion from peer 10.0.0.83<36315> with status=12 opcode=1 len=0 vendor err 129 (Send)",
            "fabric",
        ),
        (
            "NCCL WARN NET/IB: Got completion from peer 10.0.0.1<1> with status=IBV_WC_REM_ACCESS_ERR(10) opcode=IBV_WC_SEND(0)",
            "fabric",
        ),
        (
            "[rank6]:[E703 21:51:54.1 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) Rank 6] Received a dump signal due to a collective timeout from  rank 7 and we will try our best to dump the debug info.",
            "collective-timeout",
        ),
        ("RuntimeError: Application timeout caused pair closure", "collective-timeout"),
        ("[2026-12-01T01:31:11.138] error: *** JOB 1 ON n1 CANCELLED AT 2026-12-01T01:31:11 DUE TO JOB REQUEUE ***", "slurm-requeued"),
        ("[2026-12-01T01:31:11.138] error: *** JOB 1 ON n1 CANCELLED AT 2026-12-01T01:31:11 DUE to SIGNAL Terminated ***", "slurm-cancelled"),
        ("srun: error: n[1-4]: tasks 0-3: Out Of Memory", "host-memory"),
        (
            "Task was killed due to the node running low on memory. Memory on the node (IP: 10.0.0.9, ID: 0a) where the task was running was 59.88GB / 63.00GB (0.950510), which exceeds the memory usage threshold of 0.95.",
            "host-memory",
        ),
        ("[3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device", "shared-memory"),
        ("[3] include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv-1-2-3 (size 9637888)", "shared-memory"),
        (
            "RuntimeError: unable to write to file </torch_1_2>: No space left on device (28)",
            "disk-full",
        ),
        (
            "libfabric:1:2::efa:cq:efa_cq_ibv_cq_ex_open_with_ibv_create_cq_ex():92<warn> Unable to create extended CQ: Cannot allocate memory",
            "fabric-endpoint",
        ),
        ("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination", "driver-mismatch"),
        ("hip_code_object.cpp:92: guarantee(false && \"hipErrorNoBinaryForGpu: Coudn't find binary for current devices!\")", "kernel-image"),
        ("E rocm_driver.cc:606] failed to allocate 127.99TiB (140729850295296 bytes) from device: HIP_ERROR_OutOfMemory", "gpu-memory"),
        ("RuntimeError: File my_out/checkpoints/checkpoint_0.pt cannot be opened.", "write-failed"),
        ("FATAL:   container creation failed: mount hook function failure: can't mount overlay filesystem: invalid argument", "container-start"),
        ("squashfuse_ll failed to mount /var/apptainer/mnt/session/rootfs in 2s", "container-start"),
        ("terminate called after throwing an instance of 'c10::Error'", "abort"),
        ("malloc(): unsorted double linked list corrupted", "heap-damaged"),
        ("free(): invalid pointer", "heap-damaged"),
        ("Bypassing signal SIGTERM", "signal-bypassed"),
        ("Exception: process 0 terminated with signal SIGKILL", "killed"),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGABRT", "abort"),
        ("srun: error: task 0 launch failed: Unspecified error", "slurm-launch-failed"),
        ("srun: error: node69: task 289: Bus error", "bus-error"),
        ("run.sh: line 7: 4711 Aborted                 (core dumped) python train.py", "abort"),
        ("srun: error: node01: tasks 0-3: Aborted (core dumped)", "abort"),
        ("OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/path/to/data'", "storage-io"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "rendezvous-failed"),
        ("RuntimeError: HIP error: the operation cannot be performed in the present state", "cuda-error"),
        ("lmdb.Error: datasets/train.lmdb: No locks available", "file-locks"),
        ("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array with shape (1000000000000,) and data type float64", "host-allocation"),
        ("numpy.core._exceptions.MemoryError: Unable to allocate 58.8 GiB for an array with shape (88, 99) and data type float64", "host-allocation"),
        ("[rank3]: MemoryError", "host-allocation"),
        ("[rank3]: numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1 TiB for an array", "host-allocation"),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", "host-memory"),
        ("huggingface_hub.utils._errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub and we cannot find the requested files in the local disk cache. Please check your connection and try again or make sure your Internet connection is on.", "download-failed"),
        ("huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/api/models/a/b: offline mode is enabled. To disable it, please unset the `HF_HUB_OFFLINE` environment variable.", "not-downloaded"),
        ("FATAL: container creation failed", "container-start"),
    ],
)  # fmt: skip
def test_other_generations_of_a_line_meet_the_same_rule(line: str, id_: str) -> None:
    """NCCL, PyTorch and Slurm say the same thing in several ways."""
    found = row_of(line)

    assert found is not None
    assert found.id == id_


@pytest.mark.parametrize(
    ("name", "text", "id_"),
    [
        ("MemoryAllocation", "out of memory", "gpu-memory"),
        ("InsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version", "driver-too-old"),
        ("CallRequiresNewerDriver", "API call is not supported in the installed CUDA driver", "driver-too-old"),
        ("DevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable", "gpu-unavailable"),
        ("InvalidDeviceFunction", "invalid device function", "kernel-image"),
        ("NoDevice", "no CUDA-capable device is detected", "driver-missing"),
        ("InvalidDevice", "invalid device ordinal", "gpu-ordinal"),
        ("InvalidKernelImage", "device kernel image is invalid", "kernel-image"),
        ("NoKernelImageForDevice", "no kernel image is available for execution on the device", "kernel-image"),
        ("ECCUncorrectable", "uncorrectable ECC error encountered", "cuda-ecc"),
        ("DeviceAlreadyInUse", "exclusive-thread device already in use by a different thread", "gpu-unavailable"),
        ("InvalidPtx", "a PTX JIT compilation failed", "kernel-image"),
        ("NvlinkUncorrectable", "uncorrectable NVLink error detected during the execution", "cuda-nvlink"),
        ("UnsupportedPtxVersion", "the provided PTX was compiled with an unsupported toolchain.", "driver-too-old"),
        ("Contained", "Invalid access of peer GPU memory over nvlink or a hardware error", "cuda-nvlink"),
        ("IllegalAddress", "an illegal memory access was encountered", "cuda-illegal-access"),
        ("Assert", "device-side assert triggered", "device-assert"),
        ("HardwareStackError", "hardware stack error", "cuda-illegal-access"),
        ("IllegalInstruction", "an illegal instruction was encountered", "cuda-illegal-access"),
        ("MisalignedAddress", "misaligned address", "cuda-illegal-access"),
        ("InvalidAddressSpace", "operation not supported on global/shared address space", "cuda-illegal-access"),
        ("InvalidPc", "invalid program counter", "cuda-illegal-access"),
        ("LaunchFailure", "unspecified launch failure", "cuda-launch-failure"),
        ("SystemNotReady", "system not yet initialized", "cuda-not-ready"),
        ("SystemDriverMismatch", "system has unsupported display driver / cuda driver combination", "driver-mismatch"),
        ("CompatNotSupportedOnDevice", "forward compatibility was attempted on non supported HW", "driver-too-old"),
        ("MpsConnectionFailed", "MPS client failed to connect to the MPS control daemon or the MPS server", "mps"),
        ("MpsServerNotReady", "MPS server is not ready to accept new MPS client requests", "mps"),
        ("MpsClientTerminated", "the MPS client has been terminated by the server", "mps"),
        ("InvalidValue", "invalid argument", "cuda-error"),
        ("InitializationError", "initialization error", "cuda-error"),
        ("InvalidResourceHandle", "invalid resource handle", "cuda-error"),
        ("NotSupported", "operation not supported", "cuda-error"),
        ("Unknown", "unknown error", "cuda-unknown"),
    ],
)  # fmt: skip
def test_an_error_of_cuda_is_known_by_its_name_and_by_its_text(
    name: str, text: str, id_: str
) -> None:
    """Both as libcudart 12.9 has them (cudaGetErrorName, cudaGetErrorString)."""
    for line in (
        f"RuntimeError: CUDA error: {text}",
        f"thrust::system_error: cudaError{name}: failed",
    ):
        found = row_of(line)
        assert found is not None
        assert found.id == id_


@pytest.mark.parametrize(
    "line",
    [
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.1<1> with status=5 opcode=1 len=0 vendor err 249 (Recv)",
        "NCCL WARN NET/IB: Got completion from peer 10.0.0.1<1> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=x",
        "NCCL WARN NET/IB : mlx5_0:1 Got async event : port active",
        "NCCL INFO NET/IB : mlx5_0:1 Got async event : GID table change",
        "step 3 loss 0.5 error 0.01",
        "Epoch 3: validation error 0.2, out of 100 samples",
        "INFO saving checkpoint at 14 epochs",
        "NCCL INFO [Service thread] Connection established",
        "May 25 19:29:48 node01 kernel: amdgpu 0000:01:00.0: amdgpu: ring sdma0 uses VM inv eng 0 on hub 8",
        "libfabric:12:1747438790:efa:core:efa_getinfo():<info> Using the device's default settings",
        "wandb: Network error resolved after 0:00:10, resuming normal operation.",
        "Reading /dev/shm/batch of shared memory",
        "    except MemoryError:",
        "srun: error: Unable to confirm allocation for job 1: Job is pending execution",
        "ignoring MemoryError of one sample",
        "slurmstepd: task_p_pre_launch: Using sched_affinity for tasks",
        "srun: job 4711 queued and waiting for resources",
        "[rank0]: UserWarning: the lr scheduler was called before the optimizer",
        "kernel: NVRM: Xid (PCI:0000:00:05): 43, pid=1045242, name=pt_main_thread, Ch 00000008",
    ],
)
def test_a_harmless_line_meets_no_rule(line: str) -> None:
    """What a healthy job prints accuses nobody."""
    assert row_of(line) is None


def test_a_wrong_command_line_counts_only_with_its_exit_status() -> None:
    """`error:` at the beginning of a line says nothing by itself."""
    assert row_of(MISUSED.line) is None


def test_the_page_of_rules_is_up_to_date() -> None:
    """docs/diagnosis.md says what the tables say."""
    page = subprocess.run(
        [sys.executable, ROOT / "scripts" / "diagnosis_docs.py"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    ).stdout

    assert (ROOT / "docs" / "diagnosis.md").read_text() == page
