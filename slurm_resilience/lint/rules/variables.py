"""Rules about what the environment tells NCCL and torch: time-outs, the watch, the network."""

import re
from collections.abc import Iterator

from slurm_resilience.lint.asked import whole
from slurm_resilience.lint.facts import Assignment
from slurm_resilience.lint.findings import Finding
from slurm_resilience.lint.nccl import IN_TORCH, nearest
from slurm_resilience.lint.rules.rule import Rule
from slurm_resilience.lint.view import View

OFF = frozenset({"0", "false", "off", "no", "n"})
ON = frozenset({"1", "true", "on", "yes", "y"})
NEEDED = {
    "NCCL_ASYNC_ERROR_HANDLING": "a collective that fails or times out then hangs for ever",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "a collective that fails or times out then hangs for ever",
    "TORCH_NCCL_ENABLE_MONITORING": "a watchdog thread that is stuck is then never noticed",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "a collective that timed out then leaves nothing to read",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "a collective that timed out then leaves nothing to read",
    "TORCH_FR_BUFFER_SIZE": "a collective that timed out then leaves nothing to read",
    "NCCL_RAS_ENABLE": "ncclras can then not tell which rank is missing",
}
MINUTE_S = 60
TIMEOUTS = {
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": (1, 300, 3600),
    "DEEPSPEED_TIMEOUT": (MINUTE_S, 600, 3600),
}
"""Variable -> seconds of its unit, too short below, too long above."""
OPTION_TIMEOUTS = {
    "distributed-timeout-minutes": (MINUTE_S, 600, 3600),
    "ddp-timeout": (1, 600, 3600),
}
"""Likewise options of the training scripts of Megatron and of Hugging Face."""
SHORTEST_IB = 18
"""NCCL_IB_TIMEOUT: 4.096 µs x 2^18 = 1.07 s for each of seven tries; its default is 20."""
OTHER_FABRIC = re.compile(
    r"FI_PROVIDER|NCCL_NET_PLUGIN|NCCL_FASTRAK_\w+|NCCL_GPUDIRECTTCPX_\w+|OFI_NCCL_\w+"
)
LOCAL = frozenset({"lo", "=lo", "docker0", "=docker0", "virbr0"})
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def unknown_nccl_variable(view: View) -> Iterator[Finding]:
    """Only names that are surely wrong: plug-ins bring variables of their own."""
    for one in _last(view):
        if one.name in IN_TORCH:
            yield Finding(
                "unknown-nccl-variable",
                one.line,
                f"NCCL does not read {one.name}",
                IN_TORCH[one.name],
            )
        elif meant := nearest(one.name):
            yield Finding(
                "unknown-nccl-variable",
                one.line,
                f"NCCL does not read {one.name}",
                f"{meant} may be meant",
            )


def watch_switched_off(view: View) -> Iterator[Finding]:
    """What turns a hang into an error, and tells where."""
    for one in _last(view):
        if one.name in NEEDED and one.value.strip().lower() in OFF:
            yield Finding(
                "watch-switched-off",
                one.line,
                f"{one.name}={one.value}: {NEEDED[one.name]}",
                "leave it out",
            )


def short_timeout(view: View) -> Iterator[Finding]:
    """A slow save, a lost link that comes back, a straggler: all need room."""
    for line, what, value_s, shortest_s, _ in _timeouts(view):
        if value_s < shortest_s:
            yield Finding(
                "short-timeout",
                line,
                f"{what} is {value_s:g} s: too short for a slow save or a link that comes back",
                f"{shortest_s} to 1800 s",
            )
    for one in _last(view):
        exponent = whole(one.value) if one.name == "NCCL_IB_TIMEOUT" else None
        if exponent is not None and exponent < SHORTEST_IB:
            yield Finding(
                "short-timeout",
                one.line,
                f"NCCL_IB_TIMEOUT={one.value} is shorter than NCCL's default of 20",
                "20 to 22, or leave it out",
            )


def long_timeout(view: View) -> Iterator[Finding]:
    """Not where the supervisor sees a stall by itself."""
    if view.supervised:
        return
    for line, what, value_s, _, longest_s in _timeouts(view):
        if value_s > longest_s:
            yield Finding(
                "long-timeout",
                line,
                f"{what} is {value_s / 3600:.1f} h: a hang burns all GPUs for as long",
                "600 to 1800 s, or exec slurm-resilience run, which sees a stall by itself",
            )


def tcp_only(view: View) -> Iterator[Finding]:
    """On several nodes, and where no other fabric's plug-in is set up."""
    nodes = view.nodes
    if nodes is None or nodes < 2:  # noqa: PLR2004 - more than one
        return
    if any(OTHER_FABRIC.fullmatch(one.name) for one in view.script.assignments):
        return
    for one in _last(view):
        value = one.value.strip().lower()
        if (one.name == "NCCL_IB_DISABLE" and value in ON) or (
            one.name == "NCCL_NET" and value == "socket"
        ):
            yield Finding(
                "tcp-only",
                one.line,
                f"{one.name}={one.value} leaves {nodes} nodes with TCP",
                "leave it out where the nodes have InfiniBand or RoCE",
            )
            return


def loopback_interface(view: View) -> Iterator[Finding]:
    """No other node is behind it."""
    nodes = view.nodes
    if nodes is None or nodes < 2:  # noqa: PLR2004 - more than one
        return
    for one in _last(view):
        if one.name in INTERFACES and one.value.strip() in LOCAL:
            yield Finding(
                "loopback-interface",
                one.line,
                f"{one.name}={one.value}: no other node is behind this interface",
                "leave it out, or name the interface that leads to the other nodes",
            )
            return


def _last(view: View) -> list[Assignment]:
    """Each variable's last value, where it stands; only in a script that starts ranks."""
    if not view.launches:
        return []
    return list({one.name: one for one in view.script.assignments}.values())


def _timeouts(view: View) -> Iterator[tuple[int, str, float, int, int]]:
    for one in _last(view):
        value = whole(one.value)
        if one.name in TIMEOUTS and value is not None:
            unit_s, shortest_s, longest_s = TIMEOUTS[one.name]
            yield one.line, one.name, value * unit_s, shortest_s, longest_s
    for launch in view.training:
        for name, (unit_s, shortest_s, longest_s) in OPTION_TIMEOUTS.items():
            value = whole(launch.value(name))
            if value is not None:
                yield launch.line, f"--{name}", value * unit_s, shortest_s, longest_s


RULES = (
    Rule(
        "unknown-nccl-variable", unknown_nccl_variable,
        "a variable that nobody reads does nothing, and the time-out or network that it was to set"
        " stays as it was",
        "the right name; collective time-outs are an argument of `init_process_group`",
    ),
    Rule(
        "watch-switched-off", watch_switched_off,
        "a hang then never ends by itself, or ends without a trace of its cause", "leave it out",
    ),
    Rule(
        "short-timeout", short_timeout,
        "one slow save or one flap of a link ends a run that would have gone on",
        "600 to 1800 s; more on long lines",
    ),
    Rule(
        "long-timeout", long_timeout,
        "until it is over every GPU waits, at full price", "600 to 1800 s",
    ),
    Rule(
        "tcp-only", tcp_only,
        "gradients of a large model over TCP take many times as long as over InfiniBand or RoCE; a"
        " collective may run into its time-out",
        "leave `NCCL_IB_DISABLE` and `NCCL_NET` out",
    ),
    Rule(
        "loopback-interface", loopback_interface,
        "ranks on other nodes connect to themselves and wait until the time-out",
        "leave it out",
    ),
)  # fmt: skip
