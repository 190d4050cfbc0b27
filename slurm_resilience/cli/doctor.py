"""`doctor`: is this cluster set up so that the rest can work."""

import argparse
import os

from slurm_resilience import config
from slurm_resilience.cli.printing import print_json, show
from slurm_resilience.doctor.facts import ClusterFacts
from slurm_resilience.doctor.findings import Advice
from slurm_resilience.doctor.looking import look
from slurm_resilience.doctor.rules import judge
from slurm_resilience.errors import ConfigError
from slurm_resilience.slurm.connect import connect

SOUND, UNSOUND = 0, 1


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    parser = commands.add_parser(
        "doctor",
        help="is this cluster set up so that all of this can work",
        description="Compare slurm.conf, as slurmctld has it, our hooks in it, and who may change them "
        "with what is needed; each finding with the line that helps. Exit status 1 where something "
        "does not work as it is.",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON document and nothing else"
    )
    parser.set_defaults(do=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    settings, complaint = _settings()
    facts = look(connect(settings.slurm), settings, complaint)
    advice = judge(facts)
    status = UNSOUND if any(one.level == "must" for one in advice) else SOUND
    if arguments.json:
        print_json(_document(facts, advice))
        return status
    for one in advice:
        show(f"{one.level:>6}  {one.subject}: {one.what}")
        if one.line:
            show(f"        {one.line}")
    if os.geteuid() != 0:
        print("not root: what root alone may read was not looked at")
    return status


def _settings() -> tuple[config.Config, str]:
    """Ours; where they are wrong, the defaults and what is wrong."""
    try:
        return config.load(), ""
    except ConfigError as error:
        return config.Config(), str(error)


def _document(facts: ClusterFacts, advice: tuple[Advice, ...]) -> dict[str, object]:
    return {
        "slurm": facts.settings.get("SLURM_VERSION", ""),
        "package": facts.package,
        "root": os.geteuid() == 0,
        "advice": advice,
    }
