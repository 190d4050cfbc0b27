"""The checks of processes, load, the clock, and what has to run."""

from slurm_resilience.node.checks.check import Check

HOST_CHECKS: dict[str, Check] = {
    "process-stuck": Check(
        probe="processes",
        meaning="a process of the GPU stack cannot run or be killed; reboot if it stays",
        rule=(
            "in D state, or dead and not reaped, and not run once in `thresholds.stuck_s`: warn; "
            "where the NVIDIA driver is on its kernel stack: drain when idle"
        ),
        why=(
            "nvidia-smi in D state for ever (gpud issue 117); a training process may as well "
            "wait for a file server, so only the driver's own function is a fault"
        ),
        heals="reboot",
        slow=True,
        of_gpus=True,
    ),
    "node-limit": Check(
        probe="processes",
        meaning="the node runs out of threads or open files; raise the limit or find who has them",
        rule="`thresholds.limit_warn_percent` of the limit: warn",
        why="gpud's figure; what fails then looks like anything",
        heals="itself",
        slow=True,
    ),
    "foreign-load": Check(
        probe="load",
        meaning="the node is busy though no job runs: a leftover, a neighbour, an intruder",
        rule="no step for `thresholds.idle_s`, and load of `idle_load_percent`: warn",
        why="the next job would share its processors; slurmstepd tells of every job there is",
        heals="itself",
        slow=True,
    ),
    "foreign-traffic": Check(
        probe="load",
        meaning="the node moves data though no job runs: a leftover, a neighbour, an attack",
        rule="no step for `thresholds.idle_s`, and `idle_network_mbps` on its interfaces: warn",
        why="the next job would share its line; a file system client needs a little always",
        heals="itself",
        slow=True,
    ),
    "clock-unsynchronised": Check(
        probe="clock",
        meaning="nobody steers the clock; start chronyd, or whoever should",
        rule="the kernel says so (STA_UNSYNC): warn",
        why="it drifts by seconds a day; to drain for it, set `checks`",
        heals="itself",
        slow=True,
    ),
    "clock-offset": Check(
        probe="clock",
        meaning="the clock is off; see chronyc tracking, or whoever steers it",
        rule="off, or possibly off, by `thresholds.clock_offset_s`: warn",
        why="logs of nodes no longer order themselves; munge refuses at 300 s",
        heals="itself",
        slow=True,
    ),
    "service-down": Check(
        probe="services",
        meaning="a systemd unit of `expect.services` is not active; start it, or see its log",
        rule="inactive, failed, restarting for ever, not installed: drain when idle; starting: warn",
        why="without nvidia-fabricmanager, for one, no CUDA program starts on an NVSwitch board",
        heals="itself",
        slow=True,
        comes_up=True,
    ),
    "module-missing": Check(
        probe="modules",
        meaning="a kernel module of `expect.modules` is not loaded",
        rule="not in /sys/module: drain when idle",
        why="without nvidia-peermem, where it is needed, GPUDirect RDMA falls back in silence",
        heals="itself",
        slow=True,
        comes_up=True,
    ),
    "library-broken": Check(
        probe="libraries",
        meaning="libcuda or libnvidia-ml is installed and cannot be loaded; install it again",
        rule="an empty file: drain when idle; any other failure to load: warn",
        why="it is loaded, not only looked for: a file of size 0 exists (soperator issue 2675)",
        heals="itself",
        slow=True,
        of_gpus=True,
    ),
}
