"""Rules about GPUs, their drivers and their memory."""

from slurm_resilience.diagnosis.rules.row import Row

GPU_ROWS = (
    Row(
        "cuda-ecc", r"uncorrectable ECC error|cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE", "hardware", "exclude-node",
        "GPU memory failed; the node needs a look and the GPU a reset",
        "kohya-ss/sd-scripts#1434",
        "[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered",
        accuses="reporter", weight=2, confidence="high",
    ),
    Row(
        "cuda-nvlink", r"uncorrectable NVLink error|nvlink (?:hardware )?error detected"
        r"|Invalid access of peer GPU memory over nvlink|cudaError(?:NvlinkUncorrectable|Contained)\b", "hardware", "exclude-node", "an NVLink failed; the node needs a look (kernel log: Xid 74 or 144 to 150)",
        "MIC-DKFZ/nnUNet#1519",
        "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
        accuses="reporter", weight=2, confidence="high",
    ),
    Row(
        "gpu-lost",
        r"(?:GPU has )?fallen off the bus|GPU is lost|Unable to determine the device handle for GPU"
        r"|NVML: GPU is lost|RmInitAdapter failed|rm_init_adapter failed",
        "hardware", "exclude-node",
        "a GPU left the bus or does not start; the node needs a reboot, and a look at power and seating",
        "NVIDIA/NVSentinel#155", "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus",
        accuses="reporter", weight=2, confidence="high",
    ),
    Row(
        "gpu-unavailable",
        r"CUDA-capable device\(s\) is/are busy or unavailable|cudaErrorDevicesUnavailable"
        r"|exclusive-thread device already in use|cudaErrorDeviceAlreadyInUse",
        "hardware", "exclude-node",
        "a GPU is taken or broken; look for leftover processes and a pending reset on the node",
        "NVIDIA/nvidia-resiliency-ext#18",
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        accuses="reporter", weight=2, confidence="high",
    ),
    Row(
        "gpu-reset-required", r"NV_ERR_RESET_REQUIRED|GPU requires reset|Reset required",
        "hardware", "exclude-node", "a GPU waits for a reset; the node must not run jobs before it",
        "kubernetes-sigs/dra-driver-nvidia-gpu#982",
        "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from status @ kernel_channel.c:2827",
        accuses="reporter", weight=2, confidence="high",
    ),
    Row(
        "cuda-not-ready",
        r"(?:error[ =]|code[ =]|failure )\(?802\)?|system not yet initialized|cudaErrorSystemNotReady",
        "hardware", "exclude-node",
        "the NVSwitch fabric is not up: nvidia-fabricmanager is missing, stopped or of another version",
        "pytorch/pytorch#35710",
        "RuntimeError: cuda runtime error (802) : system not yet initialized at THCGeneral.cpp:50",
        accuses="reporter", weight=2, confidence="high",
    ),
    Row(
        "driver-mismatch",
        r"Driver/library version mismatch|unsupported display driver|cudaErrorSystemDriverMismatch|(?:[Ee]rror[ =]|code[ =]|failure )\(?803\b",
        "software", "exclude-node",
        "the NVIDIA driver's parts are of two versions, as after an update under the running kernel: the"
        " node needs a reboot, or the container another libcuda",
        "mozilla/translations#1167",
        "[nvidia-smi(stdout)] Failed to initialize NVML: Driver/library version mismatch",
        accuses="reporter", weight=2, confidence="high",
    ),
    Row(
        "driver-missing",
        r"no CUDA-capable device is detected|cudaErrorNoDevice\b|No CUDA GPUs are available|CUDA_ERROR_NO_DEVICE"
        r"|couldn't communicate with the NVIDIA driver|No devices were found|Found no NVIDIA driver",
        "hardware", "exclude-node",
        "the node shows the job no GPU: driver not loaded, GPU gone, or the job asked for none",
        "nitishsrivastava/deepnet#28",
        "cudamat.cudamat.CUDAMatException: CUDA error: no CUDA-capable device is detected",
        accuses="reporter", weight=2,
    ),
    Row(
        "driver-too-old", r"CUDA driver version is insufficient|forward compatibility was attempted"
        r"|PTX was compiled with an unsupported toolchain|not supported in the installed CUDA driver"
        r"|cudaError(?:InsufficientDriver|CompatNotSupportedOnDevice|UnsupportedPtxVersion|CallRequiresNewerDriver)\b",
        "software", "exclude-node",
        "the node's driver is older than the program's CUDA; another node, or an older build",
        "vuptran/cardiac-segmentation#2",
        "Failed to get the number of CUDA devices: CUDA driver version is insufficient for CUDA runtime version",
        accuses="reporter", weight=2,
    ),
    Row(
        "cuda-launch-failure", r"CUDA error: unspecified launch failure|cudaErrorLaunchFailure|CUDA_ERROR_LAUNCH_FAILED",
        "hardware", "exclude-node",
        "a kernel died on one GPU: often the GPU, sometimes the kernel; look for its Xid",
        "hiyouga/LlamaFactory#8871",
        "10.0.0.81: [rank19]:[E808 10:31:07.406255799 ProcessGroupNCCL.cpp:1895] [PG ID 1 PG GUID 1 Rank 19] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure",
        accuses="reporter",
    ),
    Row(
        "gpu-memory",
        r"CUDA out of memory|HIP out of memory|OutOfMemoryError: (?:CUDA|HIP)|CUDA error: out of memory"
        r"|Cuda failure (?:\d+ )?'out of memory'|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|HIP_ERROR_OutOfMemory|hipErrorOutOfMemory|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: Out of memory"
        r"|OutOfMemoryError: Allocation on device",
        "user-error", "stop",
        "the GPU's memory ran out: smaller batches, or shard the model further; where another process"
        " held it, look at the node",
        "stas00/ml-engineering fault-tolerance",
        "RuntimeError: CUDA out of memory. Tried to allocate 304.00 MiB (GPU 0; 8.00 GiB total capacity;",
        confidence="high",
    ),
    Row(
        "cuda-illegal-access",
        r"an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS|misaligned address|illegal instruction was encountered"
        r"|Memory access fault by GPU|invalid program counter|an illegal instruction|CUDA error: hardware stack error|on global/shared address space"
        r"|cudaError(?:IllegalAddress|MisalignedAddress|IllegalInstruction|InvalidPc|HardwareStackError|InvalidAddressSpace)\b",
        "software", "same-nodes",
        "a kernel or an index is wrong; CUDA_LAUNCH_BLOCKING=1 shows where. Hardware only with an Xid of"
        " its own on one node",
        "axolotl-ai-cloud/axolotl#1473",
        "NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered",
        accuses="reporter",
    ),
    Row(
        "device-assert",
        r"device-side assert triggered|cudaErrorAssert\b|block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion",
        "user-error", "stop",
        "an assertion in a kernel failed: most often an index or a label out of range",
        "EleutherAI/lm-evaluation-harness#2293",
        "Indexing.cu:1231: indexSelectSmallIndex: block: [31,0,0], thread: [116,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
        weight=2, confidence="high",
    ),
    Row(
        "gpu-ordinal",
        r"invalid device ordinal|cudaErrorInvalidDevice\b|Duplicate GPU detected",
        "user-error",
        "stop",
        "ranks and GPUs of a node do not fit: more ranks than GPUs, or two ranks on one; look at"
        " --nproc-per-node, --gpus-per-node and LOCAL_RANK",
        "tatsu-lab/stanford_alpaca#67",
        "RuntimeError: CUDA error: invalid device ordinal",
        weight=2,
        confidence="high",
    ),
    Row(
        "kernel-image",
        r"no kernel image is available for execution|CUDA_ERROR_NO_BINARY_FOR_GPU|hipErrorNoBinaryForGpu"
        r"|device kernel image is invalid|invalid device function|PTX JIT compilation failed"
        r"|cudaErrorInvalid(?:KernelImage|Source|DeviceFunction|Ptx)\b|cudaErrorNoKernelImageForDevice",
        "user-error",
        "stop",
        "the program was built for other GPUs than this node's: another build, or ask for the right GPUs",
        "MIC-DKFZ/nnUNet#1040",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        weight=2,
        confidence="high",
    ),
    Row(
        "hsa-exception", r"HSA_STATUS_ERROR_(?:EXCEPTION|MEMORY_APERTURE_VIOLATION|ILLEGAL_INSTRUCTION)",
        "hardware", "same-nodes",
        "a kernel died on an AMD GPU: often the GPU or its driver, sometimes the kernel",
        "ROCm/ROCm#6023",
        ":0:rocdevice.cpp:3586: Callback: Queue 0x7f78cb400000 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016",
        accuses="reporter",
    ),
    Row(
        "amdgpu-hang",
        r"amdgpu.*(?:ring \S+ timeout|fence wait loop timeout|unrecoverable state|GPU reset (?:begin|failed))",
        "hardware", "exclude-node",
        "an AMD GPU stopped and its driver had to reset it: often the GPU or its driver, sometimes the kernel",
        "ROCm/legacy-rocm-build#6313",
        "May 25 19:29:57 node01 kernel: amdgpu 0000:01:00.0: qcm fence wait loop timeout expired",
        accuses="reporter",
    ),
    Row(
        "cuda-library",
        r"CUDNN_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INITIALIZED|MAPPING_ERROR)"
        r"|CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INITIALIZED|MAPPING_ERROR)",
        "software", "same-nodes",
        "a CUDA library failed: versions that do not fit, memory that ran out, or a GPU that errs; "
        "look for an Xid",
        "mjq11302010044/TATT#18", "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        accuses="reporter", weight=0,
    ),
    Row(
        "cuda-unknown", r"CUDA error: unknown error|cudaErrorUnknown|HIP error: unknown error",
        "unknown", "same-nodes",
        "CUDA does not say what failed: look for an Xid on the node, then exclude it if it comes back",
        "vllm-project/vllm#2682",
        "[E ProcessGroupNCCL.cpp:916] [Rank 7] NCCL watchdog thread terminated with exception: CUDA error: unknown error",
        accuses="reporter", weight=0, confidence="low",
    ),
    Row(
        "mps",
        r"MPS (?:client failed to connect|server is not ready|server and the MPS client failed)"
        r"|MPS client has been terminated|required to create MPS client|cudaErrorMps[A-Z]",
        "software", "exclude-node",
        "the node's MPS server is not there, full or hung: stop it (echo quit | nvidia-cuda-mps-control), or"
        " start it before the job",
        "NVIDIA: libcudart, cudaGetErrorString",
        "RuntimeError: CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server",
        accuses="reporter",
    ),
    Row(
        "cuda-error", r"\b(?:CUDA|HIP) error: [a-zA-Z]|\bcudaError[A-Z][a-z]\w+", "software", "same-nodes",
        "a CUDA call failed: an argument or a version that does not fit, or an earlier error on that GPU",
        "NVIDIA: libcudart, cudaGetErrorString", "RuntimeError: CUDA error: invalid resource handle",
        accuses="reporter", weight=0, confidence="low",
    ),
    Row(
        "nccl-cuda-failure", r"Cuda failure (?:\d+ )?'|HIP failure (?:\d+ )?'|[Uu]nhandled cuda error|ncclUnhandledCudaError",
        "software", "same-nodes",
        "a CUDA call inside NCCL failed: versions that do not fit, or an earlier error on that GPU",
        "NVIDIA/nccl#1029", "Cuda failure 'initialization error'",
        weight=0, confidence="low",
    ),
)  # fmt: skip
