"""
NVIDIA's Data Center GPU Manager, by dcgmi: its health watch, or its quick diagnostic.

What it says in a form that is not known here is "could not run", never a pass.
"""

from __future__ import annotations

from slurm_resilience.node.probes import tool

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_ARGUMENTS = {
    "health": ["health", "--check", "--json"],
    "diag": ["diag", "--run", "1", "--json"],
}
_ROOTS = ("DCGM GPU Diagnostic", "DCGM Diagnostic")
"""Of its JSON up to version 3, and from version 4."""
_RESULTS = {
    "pass": "", "skip": "", "skipped": "", "not run": "", "warn": "warn", "fail": "fail",
}  # fmt: skip
_RAN = {"pass", "warn", "fail"}
_HEALTH = {"healthy": "", "warning": "warn", "failure": "fail"}
_CONFIGURATION = 5
"""DCGM_ERROR_CONFIG of dcgm_errors.h: for example persistence mode that is off."""


def read(ask: str, tools: list[str]) -> list[dict[str, Any]]:
    """
    As `facts.DcgmFacts`: what is not a pass. *ask*: health or diag.

    Raises OSError where it could not run.
    """
    dcgmi = tool.found("dcgmi", tools)
    if dcgmi is None:
        raise OSError("dcgmi is not installed, and node.dcgm asks for it")
    # Its status says what it found, and differs by version.
    told = tool.document([dcgmi, *_ARGUMENTS[ask]], accept=tool.ANY_STATUS)
    try:
        found = _diag(told) if ask == "diag" else _health(told)
        return [{"source": ask, **one} for one in found]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise OSError(f"{dcgmi} {ask}: unknown form of JSON: {error!r}") from error


# ── the diagnostic ──────────────────────────────────────────────────────────────────────────


def _diag(told: dict[str, Any]) -> list[dict[str, Any]]:
    root = next((told[key] for key in _ROOTS if key in told), None)
    if root is None:
        raise OSError(f"dcgmi diag: none of {', '.join(_ROOTS)} in its JSON")
    if error := root.get("runtime_error") or told.get("runtime_error"):
        raise OSError(f"dcgmi diag could not run: {error}")
    # Some versions leave gaps in their lists.
    tests = [
        test
        for category in filter(None, root["test_categories"])
        for test in filter(None, category["tests"])
    ]
    results = [(str(test["name"]), result) for test in tests for result in test["results"]]
    found = [one for name, result in results if (one := _result(name, result))]
    if not any(result["status"].lower() in _RAN for _, result in results):
        raise OSError("dcgmi diag ran no test")
    return found


def _result(test: str, result: dict[str, Any]) -> dict[str, Any] | None:
    status = _RESULTS[result["status"].lower()]
    if not status:
        return None
    warnings = result.get("warnings") or result.get("warning") or ()
    texts, severities = [], []
    for one in [warnings] if isinstance(warnings, str) else warnings:
        texts.append(one if isinstance(one, str) else one["warning"])
        severities.append(None if isinstance(one, str) else one.get("error_severity"))
    return {
        "test": test,
        "status": status,
        "entity": _entity(result),
        "says": "; ".join(texts),
        "configuration": bool(severities) and set(severities) == {_CONFIGURATION},
    }


def _entity(result: dict[str, Any]) -> str:
    if "entity_id" in result:
        return f"{result.get('entity_group', 'entity').lower()}{result['entity_id']}"
    gpus = str(result.get("gpu_id", result.get("gpu_ids", "")))
    return f"gpu{gpus}" if gpus.isdecimal() else ""


# ── the health watch ────────────────────────────────────────────────────────────────────────


def _health(told: dict[str, Any]) -> list[dict[str, Any]]:
    body = told["body"]
    overall = _HEALTH[body["Overall Health"]["value"].lower()]
    if not overall:
        return []
    found = [
        one
        for group, branch in body.items()
        for number, entity in branch.get("children", {}).items()
        for one in _incidents(f"{group.lower()}{number}", entity)
    ]
    return found or [{"test": "Overall Health", "status": overall}]


def _incidents(entity: str, branch: dict[str, Any]) -> Iterator[dict[str, Any]]:
    systems = branch.get("children", {})
    systems = systems.get("Errors", {}).get("children", systems)
    for system, told in systems.items():
        if status := _HEALTH[told["value"].lower()]:
            says = " ".join(told.get("overflow", ()))
            yield {"test": system, "status": status, "entity": entity, "says": says}
