"""
What slurmd calls: prolog, epilog, health check. Runs as root, on every node, for every job.

The prolog delays each job, so on a healthy node it imports next to nothing: a child asks NVML
while the plan is read and the other probes run, and answers that were judged fit before are not
judged again. Modules on that path (`bounded`, `kept`, `memo`, `plan`, `probing`, `scope`,
`voice`, the probes) hold plain builtins and import no typing, json, re or pathlib at start: each costs as
much as a probe. Everything else is in `visit`.

Exit status: 0 go on (fit, undecided, switched off, or this checker is broken), 10 unfit. Anything
else is a fault here, which must not cost a node: the shims make 0 of it, and say so.
"""

from __future__ import annotations

import gc
import os
import sys
import time

from slurm_resilience.bounded import Child, abandon
from slurm_resilience.errors import ResilienceError
from slurm_resilience.node import plan as plans
from slurm_resilience.node import probing, scope
from slurm_resilience.node.state import kept, memo
from slurm_resilience.node.voice import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from slurm_resilience.config import Config
    from slurm_resilience.node.policy.standing import Hook

GO_ON, COULD_NOT, UNFIT = 0, 2, 10
DISABLED = "disabled"
"""A file of this name in `paths.state` switches all hooks off."""

_GENEROUS_S = 60.0
"""The NVML child's deadline until the plan says better."""


def main() -> None:
    """Run the hook that the command line names; does not return."""
    gc.disable()  # there is nothing to collect in a tenth of a second
    hook: Hook = sys.argv[1]  # type: ignore[assignment]  # the shims' own word
    status = run(hook, os.environ)
    sys.stdout.flush()
    # Nothing is left to tidy up, and the interpreter would take its time over it.
    os._exit(status)


def run(hook: Hook, environment: Mapping[str, str]) -> int:
    """Run one hook; its exit status."""
    if os.geteuid() != 0:
        say(f"{hook}: only root can run a hook; `slurm-resilience check` looks at this node")
        return COULD_NOT
    began = time.monotonic()
    gpus = scope.NODE if hook == "health" else scope.scope_of(environment)
    children: dict[str, Child] = {}
    try:
        if gpus:
            children["nvml"] = _ask_nvml(hook, began)
        else:
            say(f"{hook}: the job has no GPUs: GPU checks skipped")
        return _run(hook, environment, gpus, children, began)
    except ResilienceError as error:
        say(f"{hook}: node not checked: {error}", grave=True)
        return COULD_NOT
    finally:
        for child in children.values():
            abandon(child)


def _ask_nvml(hook: Hook, began: float) -> Child:
    from slurm_resilience.node.probes import nvml  # noqa: PLC0415

    arguments = plans.nvml_arguments(hook)
    return probing.start(nvml.read, deadline=began + _GENEROUS_S, **arguments)


def _run(
    hook: Hook,
    environment: Mapping[str, str],
    gpus: scope.Scope,
    children: dict[str, Child],
    began: float,
) -> int:
    node = plans.here(environment)
    plan, config = plans.compiled(node), None
    if plan is None:
        plan, config = _read_plan(node)
    if (switch := kept.is_trusted(f"{plan['state']}/{DISABLED}")) is not None:
        path = f"{plan['state']}/{DISABLED}"
        if switch:
            say(f"{hook}: switched off by {path}")
            return GO_ON
        say(
            f"{hook}: {path} does not count: no plain file that only root can write", grave=True
        )
    deadline = began + min(plan["probe_s"][hook], plan["budget_s"][hook])
    for child in children.values():
        child.deadline = deadline
    boot = kept.boot_id(plan["proc"])
    hanging = _hanging(hook, plan["state"], boot)
    for name, (probe, arguments) in plans.probes_for(plan, hook).items():
        if name in hanging:
            continue
        if not gpus and name.startswith("dcgm:"):
            continue  # seconds of the epilog, for what is of no concern to the job
        children[name] = probing.start(probe, deadline=deadline, **arguments)
    answers = probing.gather(children, hanging)
    if answers.hung:
        _leave_hanging(plan["state"], boot, answers, children)
    if hook == "prolog" and memo.is_known(plan, boot, answers):
        return GO_ON
    # Imported here: what follows is slow, and on a healthy node it is not needed.
    from slurm_resilience.config import load  # noqa: PLC0415
    from slurm_resilience.node.visit import Visit, conclude  # noqa: PLC0415

    until = began + plan["budget_s"][hook]
    visit = Visit(hook, node, boot, gpus, plan, config or load().at(node), environment, until)
    return UNFIT if conclude(visit, answers) else GO_ON


def _hanging(hook: Hook, state: str, boot: str) -> tuple[str, ...]:
    """The probes whose child of an earlier hook still hangs, and a word of it."""
    if not os.path.exists(f"{state}/hanging"):
        return ()
    from slurm_resilience.node.state import hanging  # noqa: PLC0415 - not on the fast path

    found = hanging.load(state, boot)
    for name, why in found.items():
        say(f"{hook}: {name} is not asked again: {why}")
    return tuple(found)


def _leave_hanging(
    state: str, boot: str, answers: probing.Answers, children: Mapping[str, Child]
) -> None:
    from slurm_resilience.node.state import hanging  # noqa: PLC0415 - not on the fast path

    # NVML is asked before the state can be read, and may answer though one question of it hangs.
    left = {name: children[name].pid for name in answers.hung if name in children}
    left.pop("nvml", None)
    if why := hanging.save(state, boot, left) if left else "":
        say(f"{state}: cannot be kept: {why}", grave=True)


def _read_plan(node: str) -> tuple[dict[str, Any], Config]:
    from slurm_resilience.config import load  # noqa: PLC0415

    stamp = plans.stamp(node)
    config = load().at(node)
    plan = plans.plan_of(config, stamp)
    plans.leave(plan)
    return plan, config
