"""The checks of network links."""

from slurm_resilience.node.checks.check import Check

NETWORK_CHECKS: dict[str, Check] = {
    "link-down": Check(
        probe="network",
        meaning="a link named in `expect.links` is not up, or another was up and is no longer",
        rule=(
            "expected and not up: drain; up but waiting for the subnet manager: warn; not expected, "
            "but up earlier in this boot: warn"
        ),
        why="most adapters have ports that nobody uses, so expected ones only drain",
        heals="itself",
        comes_up=True,
    ),
    "link-slow": Check(
        probe="network",
        meaning="a link is up at less than its expected rate, or than it was",
        rule=(
            "below its expected rate, or half duplex: drain when idle; without an expectation, "
            "slower than earlier in this boot, or over one lane: warn"
        ),
        why="a link that lost lanes slows every rank of the job",
        heals="itself",
        comes_up=True,
    ),
    "link-flapping": Check(
        probe="counters",
        meaning="a link goes down again and again; look at its cable and module",
        rule=(
            "`thresholds.link_flaps` times within an hour: drain when idle where expected, else warn"
        ),
        why=(
            "NVSentinel: 3 within an hour. A job loses seconds or its life at each; by growth "
            "since boot, so an old flap never counts again (gcm drains for it for ever)"
        ),
        heals="itself",
        slow=True,
    ),
    "link-integrity": Check(
        probe="counters",
        meaning="a port lost data for a bad link or full buffers; look at its cable and module",
        rule=(
            "local_link_integrity_errors or excessive_buffer_overrun_errors grew within the last "
            "hour: drain when idle where expected, else warn"
        ),
        why="NVSentinel: any growth is fatal; on a sound port they never move",
        heals="itself",
        slow=True,
    ),
    "link-errors": Check(
        probe="counters",
        meaning="a port's error counter grows too fast",
        rule="faster than `thresholds.link_errors_per_s`: warn",
        why="rates, as NVSentinel has them; lifetime values only ever grow",
        heals="itself",
        slow=True,
    ),
    "optics-alarm": Check(
        probe="optics",
        meaning="a cable's or transceiver's module raises an alarm: heat, voltage, light",
        rule="an alarm flag of its own, or its own temperature limit reached, on a link that is up: warn",
        why="the module knows its limits; a link that still runs is not drained for it",
        heals="itself",
        slow=True,
    ),
}
