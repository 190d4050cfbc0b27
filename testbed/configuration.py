"""The product's configuration file inside the cluster."""

from collections.abc import Mapping

import yaml

from testbed.errors import TestbedError
from testbed.layout import Layout

OWN: Mapping[str, object] = {
    "paths": {"kmsg": "/run/testbed/kmsg", "sysfs": "/run/testbed/sysfs"},
}
"""Where a machine of the cluster differs from a real one."""


def write(layout: Layout, text: str) -> None:
    """Replace /etc/slurm-resilience/config.yaml of every machine: *text* over the testbed's."""
    try:
        wanted = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise TestbedError(f"config: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(wanted, dict):
        raise TestbedError("config: expected a mapping")
    folder = layout.etc / "slurm-resilience"
    folder.mkdir(exist_ok=True)
    fresh = folder / ".config.yaml.new"
    fresh.write_text(yaml.safe_dump(merged(OWN, wanted)))
    fresh.replace(folder / "config.yaml")


def merged(under: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """*over* laid over *under*, mapping by mapping."""
    result = dict(under)
    for key, value in over.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = merged(below, value) if both else value  # type: ignore[arg-type]
    return result
