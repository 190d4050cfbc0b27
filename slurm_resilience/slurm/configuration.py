"""What `scontrol show config` prints -> settings by name. Pure."""

import re
from collections.abc import Mapping

from slurm_resilience.errors import SlurmError

_LINE = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9_]*)(?:\[(?P<place>\d+)\])? *= ?(?P<value>.*)")
_ABSENT = frozenset({"(null)", "n/a", "N/A"})


def read_configuration(text: str) -> Mapping[str, str]:
    """
    Slurm's settings as it has them now; what is not set is left out.

    Later versions number what may stand more than once (`Prolog[0]`): those are joined by commas.
    Raises `SlurmError` where the text is no configuration.
    """
    settings: dict[str, str] = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        if not found:
            continue
        key, value = found["key"], found["value"].strip()
        if value in _ABSENT or not value:
            continue
        if found["place"] and key in settings:
            settings[key] += f",{value}"
        else:
            settings.setdefault(key, value)
    if "SLURM_VERSION" not in settings:
        raise SlurmError("scontrol show config: not understood: it names no SLURM_VERSION")
    return settings
