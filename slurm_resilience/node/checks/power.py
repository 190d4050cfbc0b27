"""The checks of the node's power and cooling."""

from slurm_resilience.node.checks.check import Check

POWER_CHECKS: dict[str, Check] = {
    "power-supply": Check(
        probe="ipmi",
        meaning="a power supply failed, lost its feed, or is no longer backed by another",
        rule="by the sensor's own words or limits: warn",
        why="IPMI's power supply and redundancy events; the node still runs on the others",
        heals="itself",
        slow=True,
    ),
    "fan": Check(
        probe="ipmi",
        meaning="a fan is slow or stopped; replace it before the GPUs slow down",
        rule="beyond its critical limit, or redundancy lost: warn",
        why="the board's own limits; what gets too hot says so itself",
        heals="itself",
        slow=True,
    ),
    "ups-on-battery": Check(
        probe="ups",
        meaning="an uninterruptible power supply of `power.ups` runs on its battery",
        rule="OB: warn",
        why="Network UPS Tools' status words; most outages are over in seconds",
        heals="itself",
        slow=True,
    ),
    "ups-low": Check(
        probe="ups",
        meaning="the battery of a UPS is nearly empty: save now",
        rule="OB and LB, or FSD: drain",
        why=(
            "NUT shuts its machines down now; LB on line is the battery charging again after "
            "an outage, and no fault"
        ),
        heals="itself",
        slow=True,
    ),
    "ups-fault": Check(
        probe="ups",
        meaning="a UPS would not help at the next outage",
        rule="RB, OVER, OFF, BYPASS, ALARM: warn",
        why="Network UPS Tools' status words",
        heals="itself",
        slow=True,
    ),
}
