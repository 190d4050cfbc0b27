"""Text of dead attempts, most of it from public threads, and the verdict it must get."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.diagnosis.facts import NodeEnd, RankError
from slurm_resilience.diagnosis.verdict import diagnose

TORCHRUN_KILLED = (
    "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 812914 closing signal SIGTERM",
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 812917) of binary: /path/to/python",
)
SHAPE_ERROR = (
    "Traceback (most recent call last):",
    '  File "/path/to/train.py", line 191, in <module>',
    "    con_loss = mapfns(train_pred_ind, train_target_ind)",
    '  File "/path/to/model/mapfns.py", line 36, in forward',
    "    gamma = torch.mm(A_taskpair, self.gamma.t())",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x2 and 6x64)",
)
NCCL_TIMEOUT = "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, Timeout(ms)=600000) ran for 600060 milliseconds before timing out."
GLOO_CLOSED = (
    "[rank1]: Traceback (most recent call last):",
    '[rank1]:   File "/home/me/train.py", line 40, in <module>',
    "[rank1]:     loss.backward()",
    '[rank1]:   File "/venv/lib/python3.11/site-packages/torch/_tensor.py", line 630, in backward',
    "[rank1]:     torch.autograd.backward(",
    "[rank1]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:26532",
)
USER_RAISED = (
    "[rank0]: Traceback (most recent call last):",
    '[rank0]:   File "/home/me/train.py", line 12, in <module>',
    "[rank0]:     main()",
    '[rank0]:   File "/home/me/train.py", line 7, in main',
    '[rank0]:     raise RuntimeError("no such split: trian")',
    "[rank0]: RuntimeError: no such split: trian",
)


@pytest.mark.parametrize(
    ("lines", "class_", "retry", "cause"),
    [
        (
            "[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered",
            "hardware", "exclude-node", "cuda-ecc",
        ),
        (
            "RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at /pytorch/aten/src/THC/THCCachingHostAllocator.cpp:265",
            "hardware", "exclude-node", "cuda-ecc",
        ),
        (
            "[rank19]:[E808 10:31:07.406255799 ProcessGroupNCCL.cpp:1895] [PG ID 1 PG GUID 1 Rank 19] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure",
            "hardware", "exclude-node", "cuda-launch-failure",
        ),
        (
            "NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered",
            "software", "same-nodes", "cuda-illegal-access",
        ),
        (
            "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
            "hardware", "exclude-node", "gpu-unavailable",
        ),
        (
            "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost. Reboot the system to recover this GPU",
            "hardware", "exclude-node", "gpu-lost",
        ),
        (
            "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus",
            "hardware", "exclude-node", "gpu-lost",
        ),
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 304.00 MiB (GPU 0; 8.00 GiB total capacity;",
            "user-error", "stop", "gpu-memory",
        ),
        (NCCL_TIMEOUT, "network", "same-nodes", "collective-timeout"),
        (
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.",
            "software", "same-nodes", "collective-at-start",
        ),
        (
            "[rank6]:[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 6] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",
            "hardware", "same-nodes", "gpu-call-stuck",
        ),
        (
            "node01:984:1357 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.0.0.59<44206> with status=12 opcode=129 len=65536 vendor err 129 (Recv)",
            "network", "same-nodes", "fabric",
        ),
        (
            "node02:25146:25854 [0] ib_plugin.c:1105 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<49189> with error 4, opcode 5327, len 5327, vendor err 81 (Send)",
            "network", "same-nodes", "fabric",
        ),
        (
            "NCCL WARN NET/OFI Request completed with error. RC: 21. Error: unknown error",
            "network", "same-nodes", "fabric",
        ),
        (
            "node22:183006:183220 [1] misc/socket.cc:518 NCCL WARN Net : Call to recv from 10.0.0.247<58355> failed : Broken pipe",
            "software", "same-nodes", "peer-closed",
        ),
        (
            "NCCL WARN socketProgress: Connection closed by remote peer node02<42830>",
            "software", "same-nodes", "peer-closed",
        ),
        (
            "node01:16901:16967 [2] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3",
            "software", "same-nodes", "peer-closed",
        ),
        (GLOO_CLOSED, "software", "same-nodes", "peer-closed"),
        (TORCHRUN_KILLED, "memory", "same-nodes", "killed"),
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
            "software", "same-nodes", "rendezvous-closed",
        ),
        (
            ("    raise ChildFailedError(", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "),
            "unknown", "same-nodes", "unknown",
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=11300781.0. Some of the step tasks have been OOM Killed.",
            "memory", "stop", "host-memory",
        ),
        (
            "RuntimeError: The server socket has failed to listen on any local network address. port: 12341, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use",
            "software", "same-nodes", "port-in-use",
        ),
        (
            "RuntimeError: DataLoader worker (pid 325) is killed by signal: Bus error.",
            "memory", "stop", "shared-memory",
        ),
        ("OSError: [Errno 122] Disk quota exceeded", "storage", "hold", "quota"),
        ("OSError: [Errno 28] No space left on device", "storage", "hold", "disk-full"),
        ("OSError: [Errno 5] Input/output error: '/data/x'", "storage", "same-nodes", "storage-io"),
        (
            "RuntimeError: [enforce fail at inline_container.cc:144] . PytorchStreamReader failed reading zip archive: failed finding central directory",
            "checkpoint", "same-nodes", "checkpoint-damaged",
        ),
        (
            "slurm_resilience.errors.CheckpointLoadError: /ckpt: step 20: a part is damaged",
            "checkpoint", "same-nodes", "checkpoint-damaged",
        ),
        (
            "slurm_resilience.errors.CheckpointPlaceError: /ckpt holds no checkpoint",
            "user-error", "stop", "checkpoint-place",
        ),
        (
            "slurm_resilience.errors.CheckpointInUseError: /ckpt: job 7 writes to it",
            "user-error", "stop", "checkpoint-in-use",
        ),
        (
            "slurm_resilience.errors.CheckpointVersionError: n1: /ckpt/step-000000005 was written by a newer slurm_resilience",
            "user-error", "stop", "checkpoint-version",
        ),
        (
            "slurm_resilience.errors.CheckpointSaveError: step 9 is not saved: [Errno 28] No space left on device",
            "storage", "hold", "disk-full",
        ),
        (
            "slurm_resilience.errors.CheckpointSaveError: step 9 is not saved: rank 1 is gone",
            "storage", "same-nodes", "checkpoint-not-saved",
        ),
        (
            "slurm_resilience.errors.CheckpointError: step 9: no", "checkpoint", "same-nodes",
            "checkpoint",
        ),
        (SHAPE_ERROR, "user-error", "stop", "user-error"),
        (USER_RAISED, "user-error", "stop", "user-error"),
        ("epoch 3 done", "unknown", "same-nodes", "unknown"),
    ],
)  # fmt: skip
def test_a_line_gets_its_verdict(
    lines: str | tuple[str, ...], class_: str, retry: str, cause: str
) -> None:
    """Each fault that the table knows is told by the text that it really leaves."""
    stderr = (lines,) if isinstance(lines, str) else lines

    verdict = diagnose([NodeEnd("n1", status=1, stderr=stderr)])

    assert (class_, retry, cause) == (verdict.class_, verdict.retry, verdict.cause)


TORCHRUN_USAGE = """\
usage: tr.py [-h] [--a A]
tr.py: error: unrecognized arguments: --bogus 3
"""


def torchrun(status: int) -> str:
    """What torchrun 2.13 writes when a rank ends with *status*."""
    return f"""\
E1201 03:45:11.373000 31095 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {status}) local_rank: 0 (pid: 31133) of binary: /venv/bin/python3
Traceback (most recent call last):
  File "/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
             ^^^^^^
  File "/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
tr.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-12-01_03:45:11
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : {status} (pid: 31133)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


NO_FILE = "/venv/bin/python3: can't open file '/tmp/no.py': [Errno 2] No such file or directory"


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (1, TORCHRUN_USAGE + torchrun(2), "tr.py: error: unrecognized arguments: --bogus 3"),
        (2, "usage: torchrun\ntorchrun: error: unrecognized arguments: --bogus", "--bogus"),
        (
            1,
            "[rank0]: tr.py: error: the following arguments are required: x\n" + torchrun(2),
            "x",
        ),
        (1, f"{NO_FILE}\n{torchrun(2)}", NO_FILE),
        (2, "Usage: tr [OPTIONS]\n\nError: No such option: --bogus", "No such option: --bogus"),
    ],
    ids=["argparse", "torchrun's own", "with its rank", "no script", "click"],
)
def test_a_wrong_command_line_is_not_tried_again(status: int, text: str, said: str) -> None:
    """The program says what is wrong with it, and says the same at every attempt."""
    verdict = diagnose([NodeEnd("n1", status, stderr=tuple(text.splitlines()))])

    assert (verdict.class_, verdict.retry) == ("user-error", "stop")
    assert verdict.reason.endswith(said)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (
            NodeEnd("n1", 1, stderr=tuple(torchrun(1).splitlines())),
            "n1: it ended with status 1",
        ),
        (
            NodeEnd("n1", 1, stderr=tuple(torchrun(3).splitlines())),
            "n1: it ended with status 3",
        ),
        (
            NodeEnd(
                "n1", 1, stderr=("no such split: trian", "-----", *torchrun(1).splitlines())
            ),
            "n1: no such split: trian",
        ),
        (
            NodeEnd(
                "n1", 1, stderr=tuple(torchrun(1).splitlines()), stdout=("giving up", "=====")
            ),
            "n1: giving up",
        ),
        (NodeEnd("n1", 1, stderr=("tr.py: error: at step 5",)), "n1: tr.py: error: at step 5"),
    ],
    ids=["silent", "silent, status 3", "last words", "on standard output", "no misuse"],
)
def test_what_says_no_cause_is_quoted_by_its_last_words(end: NodeEnd, said: str) -> None:
    """Never a rule, nor torchrun's table; tried again, as it may be anything."""
    verdict = diagnose([NodeEnd("n2", 0), end])

    assert (verdict.class_, verdict.retry) == ("unknown", "same-nodes")
    assert verdict.reason == f"no line says why: {said}"


def test_trouble_that_a_program_lived_through_did_not_end_it() -> None:
    """A save that failed hours before is no reason to hold a job that died of something else."""
    went_on = (
        "slurm-resilience: step 5 is not saved: [Errno 28] No space left on device; training goes on",
    )
    died = ("CheckpointSaveError: step 9 is not saved: [Errno 28] No space left on device",)

    alone = diagnose([NodeEnd("n1", 1, stderr=went_on)])
    last = diagnose([NodeEnd("n1", 1, stderr=(*went_on, *died))])

    assert (alone.class_, alone.reason) == (
        "unknown",
        "no line says why: n1: it ended with status 1",
    )
    assert last.retry == "hold"
    assert "goes on" not in last.reason


def test_the_node_that_prints_a_hardware_fault_is_the_suspect() -> None:
    """The line's node and rank are accused, not the node that died first."""
    victim = NodeEnd("n1", status=1, stderr=GLOO_CLOSED)
    faulty = NodeEnd(
        "n2", status=1, stderr=("[rank1]: CUDA error: uncorrectable ECC error encountered",)
    )

    verdict = diagnose([victim, faulty])

    assert [(suspect.node, suspect.rank) for suspect in verdict.suspects] == [("n2", 1)]


def test_who_reports_a_collective_timeout_is_a_victim() -> None:
    """A time-out accuses nobody."""
    verdict = diagnose([NodeEnd("n1", status=1, stderr=(NCCL_TIMEOUT,))])

    assert verdict.suspects == ()


def test_an_exception_outranks_what_its_peers_report() -> None:
    """The rank that raised is the cause, though its peers' complaint came first."""
    verdict = diagnose(
        [NodeEnd("n2", 1, stderr=GLOO_CLOSED), NodeEnd("n1", 1, stderr=USER_RAISED)]
    )

    assert verdict.class_ == "user-error"
    assert "/home/me/train.py:7 in main" in verdict.reason


def test_a_full_disk_inside_a_traceback_is_no_user_error() -> None:
    """What the world did to a program is not the program's fault."""
    stderr = (
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 7, in <module>',
        '    file.write("x")',
        "OSError: [Errno 28] No space left on device",
    )

    verdict = diagnose([NodeEnd("n1", status=1, stderr=stderr)])

    assert (verdict.class_, verdict.retry) == ("storage", "hold")


def test_error_files_speak_in_order_of_time() -> None:
    """The earliest error of a node is reported first."""
    late = RankError("Traceback (most recent call last):\nValueError: late", at=20.0)
    early = RankError("Traceback (most recent call last):\nValueError: early", at=10.0)

    printed = ("Traceback (most recent call last):", "ValueError: printed")

    verdict = diagnose([NodeEnd("n1", status=1, stderr=printed, errors=(late, early))])

    assert "ValueError: early" in verdict.reason


def test_an_error_outside_the_users_code_is_not_called_a_user_error() -> None:
    """A RuntimeError that a library raised may be anything."""
    stderr = (
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 7, in <module>',
        "    loss.item()",
        "RuntimeError: CUDA error: unknown error",
    )

    verdict = diagnose([NodeEnd("n1", status=1, stderr=stderr)])

    assert verdict.class_ == "unknown"


WATCHDOG = "[rank{0}]:[E321 02:07:08.465 ProcessGroupNCCL.cpp:1664] [PG ID 1 PG GUID 1 Rank {0}] Exception (either an error or timeout) detected by watchdog at work: {1}, last enqueued NCCL work: {2}, last completed NCCL work: {1}."
MINUS_6 = "E0321 02:07:38.805000 97 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: -6) local_rank: 0 (pid: 97) of binary: python3"
NO_GPU = "[rank{0}]: RuntimeError: No CUDA GPUs are available"


@pytest.mark.parametrize("status", [1, 134], ids=["torchrun", "the command itself"])
def test_that_torch_aborts_after_a_timeout_is_not_the_cause(status: int) -> None:
    """Its watchdog ends every time-out so; the rank that lags is named with its node."""
    waiting = tuple(WATCHDOG.format(rank, 80, 82) for rank in range(4))
    lagging = (WATCHDOG.format(5, 70, 79),)

    verdict = diagnose(
        [
            NodeEnd("n1", status, stderr=(*waiting, MINUS_6)),
            NodeEnd("n2", status, stderr=(*lagging, MINUS_6)),
        ]
    )

    assert (verdict.class_, verdict.cause) == ("network", "collective-timeout")
    assert [(one.node, one.rank) for one in verdict.suspects] == [("n2", 5)]


@pytest.mark.parametrize(
    ("saying", "retry", "suspects"),
    [(2, "same-nodes", []), (1, "exclude-node", ["n1"])],
    ids=["all nodes", "one node"],
)
def test_what_all_nodes_say_is_no_fault_of_a_node(
    saying: int, retry: str, suspects: list[str]
) -> None:
    """To exclude them all would leave the job without nodes."""
    nodes = ("n1", "n2")
    ends = [
        NodeEnd(node, 1, stderr=(NO_GPU.format(rank),))
        for rank, node in enumerate(nodes[:saying])
    ]

    verdict = diagnose(ends, nodes=nodes)

    assert (verdict.cause, verdict.retry) == ("driver-missing", retry)
    assert [one.node for one in verdict.suspects] == suspects
    assert verdict.is_clear == (saying == len(nodes))


def test_a_node_that_srun_names_is_the_suspect() -> None:
    """It could not start there, so that nothing there could say so."""
    said = "srun: error: Task launch for StepId=13.0 failed on node {}: Invalid job credential"

    named = diagnose([], [said.format("n2")], nodes=("n1", "n2"))
    stranger = diagnose([], [said.format("n9")], nodes=("n1", "n2"))

    assert [one.node for one in named.suspects] == ["n2"]
    assert (stranger.suspects, stranger.retry) == ((), "same-nodes")


def test_a_command_that_is_missing_counts_where_the_attempt_ended_for_it() -> None:
    """A script may ask for nvidia-smi in vain, and train for days."""
    said = ("job.sh: line 3: nvidia-smi: command not found",)

    missing = diagnose([NodeEnd("n1", 127, stderr=said)])
    killed = diagnose([NodeEnd("n1", 137, stderr=said)])

    assert (missing.cause, missing.retry) == ("command-missing", "stop")
    assert killed.cause == "killed"


def test_a_logger_that_reaches_no_server_did_not_end_the_program() -> None:
    """Where the program then raised an exception of its own."""
    said = (
        "wandb: Network error (ReadTimeout): HTTPSConnectionPool(host='api.wandb.ai', port=443): Read timed out.",
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 7, in <module>',
        "ValueError: no such split: trian",
    )

    verdict = diagnose([NodeEnd("n1", 1, stderr=said)])

    assert (verdict.class_, verdict.retry) == ("user-error", "stop")


def test_what_the_program_went_on_after_did_not_end_it() -> None:
    """The supervisor reads progress as `diagnose` does."""
    steps = tuple(f"step {step} loss 0.5" for step in range(9))
    said = ("RuntimeError: CUDA out of memory. Tried to allocate 3 GiB", *steps)

    verdict = diagnose([NodeEnd("n1", 139, stderr=said)])

    assert verdict.cause == "segfault"


PIECES = st.one_of(
    st.text(max_size=60),
    st.sampled_from([
        "Traceback (most recent call last):", '  File "x.py", line 1, in f', "    raise X", "KeyError: 'x'",
        "[rank0]: ", "NVRM: Xid (PCI:0000:44:00): 79, ", "exitcode : -9 ", "srun: error: n[1-: task 0: Killed",
        "Node failure on n[1", "WorkNCCL(SeqNum=", "Ranks 1, failed to pass monitoredBarrier", TORCHRUN_USAGE,
    ]),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=12), st.lists(PIECES, max_size=4), st.integers(-1, 300))
def test_no_text_is_too_strange_for_the_supervisor(
    said: list[str], launcher: list[str], status: int
) -> None:
    """Whatever a program printed, the job gets a verdict that the controller understands."""
    verdict = diagnose(
        [NodeEnd("n1", status, stderr=tuple(said), stdout=tuple(said))], launcher
    )

    assert verdict.retry in {"same-nodes", "exclude-node", "hold", "stop"}
    assert verdict.reason
