"""Rules about the network between ranks: NCCL, its transports, gloo, rendezvous, MPI."""

from slurm_resilience.diagnosis.rules.row import Row

NETWORK_CAUSES = (
    Row(
        "fabric",
        r"NET/IB\S* ?: Got completion from peer (?P<peer>[^<\s]+)<\d+> with (?:status=(?:\w+\()?12|error 12)\b"
        r"|Got completion with error 12\b",
        "network", "same-nodes",
        "the fabric retried a transfer until it gave up: a link, a switch port or the peer is down; the"
        " end that recurs is the bad one",
        "NVIDIA/nccl#1814",
        "node01:984:1357 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.0.0.59<44206> with status=12 opcode=129 len=65536 vendor err 129 (Recv)",
        accuses="link", weight=2, confidence="high",
    ),
    Row(
        "fabric",
        r"NET/IB\S* ?: Got completion .*(?:status=(?:\w+\()?|error )(?!5\b)\d+\b|NET/OFI (?:Request(?: \S+)? completed with error|Completion with error)",
        "network", "same-nodes",
        "the fabric lost a transfer for good; where it comes back, look at the adapter and the GPUDirect"
        " set-up of this node",
        "NVIDIA/nccl-tests#252",
        "node02:25146:25854 [0] ib_plugin.c:1105 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<49189> with error 4, opcode 5327, len 5327, vendor err 81 (Send)",
        accuses="reporter", weight=2,
    ),
    Row(
        "fabric-adapter",
        r"Got async event ?: (?:local catastrophic error|port error|device fatal|.*device removal)"
        r"|async fatal event: (?:local catastrophic|device fatal)",
        "hardware", "exclude-node", "the network adapter of this node failed; it needs a look",
        "NVIDIA/nccl#230",
        "node57:815:864 [0] transport/net_ib.cu:80 NCCL WARN NET/IB : Got async event : local catastrophic error",
        accuses="reporter", weight=2, confidence="high",
    ),
    Row(
        "fabric-event", r"NET/IB\S* ?: .*(?:Got async event|async fatal event)(?!.*(?:GID table change|port active|client re-?reg|SM change|LID change))",
        "network", "same-nodes",
        "the network adapter reported an error of a queue: driver, firmware or GPUDirect set-up",
        "NVIDIA/nccl#1710",
        "node201:127799:127863 [0] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_0:1 Got async event : local access violation work queue error",
        accuses="reporter",
    ),
    Row(
        "fabric-connect",
        r"ibv_modify_qp failed|Failed to modify QP to (?:RTR|RTS|INIT)|\bibv_[a-z_]+ failed",
        "network", "same-nodes",
        "two adapters cannot reach each other: link down, wrong GID or rail, or memory lock limits",
        "NVIDIA/nccl-tests#227",
        "node03:4940:4953 [0] ibvwrap.c:160 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
        accuses="reporter",
    ),
    Row(
        "fabric-missing",
        r"provider efa output empty list|Couldn't find any optimal provider|Only EFA provider is supported"
        r"|NET/OFI (?:No eligible providers|OFI fi_getinfo)|NET/IB : No device found\b.*(?:abort|fail)",
        "network", "exclude-node",
        "the node shows the job no fabric adapter: driver, container or security group; where all nodes"
        " say so, mend the set-up",
        "aws/aws-ofi-nccl#889",
        "libfabric:85:1747438790::core:core:fi_getinfo_():1392<warn> fi_getinfo: provider efa output empty list",
        accuses="reporter", weight=2,
    ),
    Row(
        "fabric-endpoint", r"NET/OFI (?:Couldn't|Creating new endpoint|.*failed)|OFI NCCL failure|fi_\w+ failed"
        r"|libfabric:\d+:.*<warn> Unable to (?:create|open|register)",
        "network", "same-nodes", "libfabric could not open its endpoint: driver, limits or versions",
        "aws/aws-ofi-nccl#24",
        "node23:72593:73427 [7] create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
        accuses="reporter",
    ),
    Row(
        "no-route",
        r"No route to host|Network is (?:unreachable|down)|Host is (?:unreachable|down)|\berrno: 113\b",
        "network", "same-nodes",
        "a node cannot be reached on the interface that was taken: link, firewall, or NCCL_SOCKET_IFNAME",
        "sgl-project/sglang#3820",
        "node05:240:240 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> returned 113(No route to host) errno 115(Operation now in progress)",
    ),
    Row(
        "port-in-use", r"EADDRINUSE|[Aa]ddress already in use", "software", "same-nodes",
        "the rendezvous port was taken; the next attempt must take another",
        "NVIDIA/Megatron-LM#1371",
        "RuntimeError: The server socket has failed to listen on any local network address. port: 12341, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use",
        weight=2, confidence="high",
    ),
    Row(
        "collectives-differ",
        r"Detected mismatch between collectives|Mismatched collective detected|mismatch in collective",
        "software", "stop",
        "ranks called different collectives, or with different shapes: the program's ranks took different"
        " ways",
        "speechbrain/speechbrain#2401",
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=485, OpType=ALLREDUCE), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=485, OpType=BROADCAST)",
        weight=2, confidence="high",
    ),
    Row(
        "gpu-call-stuck", r"watchdog got stuck for \d+ seconds", "hardware", "same-nodes",
        "a GPU call of this rank did not come back: exclude its node if it comes again",
        "om-ai-lab/VLM-R1#257",
        "[rank6]:[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 6] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",
        accuses="lone",
    ),
)  # fmt: skip

NETWORK_FALLOUT = (
    Row(
        "barrier-not-passed",
        r"Ranks? (?P<ranks>\d+(?:, \d+)*) failed to pass monitoredBarrier",
        "software",
        "same-nodes",
        "the named ranks did not come to a barrier; look for what they did, and at their nodes",
        "NVIDIA/nccl#849",
        "RuntimeError: [Rank 0]: Ranks 4, 5, 6, 7 failed to pass monitoredBarrier in 2000000 ms",
        "fallout",
        "named",
        weight=3,
    ),
    Row(
        "collective-at-start", r"Watchdog caught collective operation timeout: WorkNCCL\((?:SeqNum|OpSeqNum)=\d,",
        "software", "same-nodes", "the first collectives never met: look at the set-up",
        "NVIDIA/Megatron-LM#1207",
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.",
        "fallout", weight=2,
    ),
    Row(
        "horovod-stalled", r"\[missing ranks: ?(?P<ranks>\d+(?:, \d+)*)",
        "software", "same-nodes", "these ranks did not come to a collective of Horovod; who reports it is a victim",
        "horovod/horovod#534", "HorovodBroadcast_fully_connected_weights_0 [missing ranks: 0]",
        "fallout", "named",
    ),
    Row(
        "collective-timeout",
        r"caught collective operation timeout|detected by watchdog at work|Timeout at NCCL work"
        r"|Timed out waiting \d+ms for (?:recv|send)|NCCL communicator was aborted"
        r"|Some NCCL operations have failed or timed out|dump signal due to a collective timeout"
        r"|Application timeout caused pair closure|successfully reached monitoredBarrier, but",
        "network", "same-nodes",
        "a peer did not come to a collective; who reports it is a victim. Look at the ranks that are"
        " silent or behind",
        "hiyouga/LlamaFactory#7396",
        "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.",
        "fallout", weight=2,
    ),
    Row(
        "peer-closed",
        r"[Cc]onnection closed by|[Cc]onnection reset by peer|Broken pipe|wrong type \d+ != \d+"
        r"|ncclRemoteError|DistNetworkError|Software caused connection abort|Socket recv failed"
        r"|remote process exited or there was a network error",
        "software", "same-nodes", "a peer went away first; look for what ended it",
        "NVIDIA/nccl#1232", "NCCL WARN socketProgress: Connection closed by remote peer node02<42830>",
        "fallout",
    ),
    Row(
        "rendezvous-failed",
        r"RendezvousConnectionError|RendezvousTimeoutError|connection to the C10d store has failed"
        r"|DistStoreError|store based barrier|store->get\('[^']*'\) got error"
        r"|client socket has (?:timed out|failed)|connect\(\) timed out|Timeout waiting for key"
        r"|Connection (?:refused|timed out)",
        "software", "same-nodes",
        "ranks did not find each other at the start: one died early or came late, or the address does not"
        " answer",
        "pytorch/pytorch#107021",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
        "fallout",
    ),
    Row(
        "rendezvous-closed", r"RendezvousClosedError", "software", "same-nodes",
        "another node left the rendezvous first; look for what ended it", "pytorch/pytorch#150916",
        "torch.distributed.elastic.rendezvous.api.RendezvousClosedError", "fallout", weight=0,
    ),
    Row(
        "mpi-daemon-lost", r"has lost communication with a remote daemon", "network", "same-nodes",
        "a node of the MPI launcher is not heard any more: node, network, or a daemon that was killed",
        "openpmix/prrte#2694", "PRTE has lost communication with a remote daemon.", "fallout",
    ),
    Row(
        "nccl-error",
        r"ncclInternalError|ncclSystemError|unhandled system error|NCCL error in: |Test NCCL failure"
        r"|[Ii]nternal error - please report this issue to the NCCL",
        "software", "same-nodes",
        "NCCL says only that something failed; run with NCCL_DEBUG=INFO to see what",
        "NVIDIA/nccl#1514", "ncclInternalError: Internal check failed.",
        "fallout", weight=0, confidence="low",
    ),
)  # fmt: skip
