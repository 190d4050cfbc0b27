"""Faults by name, as `python -m testbed inject` takes them."""

from collections.abc import Sequence

from testbed.errors import TestbedError
from testbed.gpus import shown
from testbed.nodes import Node

KINDS = ("gpu", "xid", "kmsg", "link", "power", "freeze", "thaw")


def inject(node: Node, kind: str, words: Sequence[str]) -> None:
    """Break *node* (or mend it) in the way that *kind* and *words* say."""
    match kind, [*words]:
        case "gpu", [index, first, *rest]:
            changes = _pairs([first, *rest])
            node.gpu(int(_number(index))).set(**{k: _number(v) for k, v in changes.items()})
        case "xid", [number, *text]:
            node.kmsg(xid_line(node, int(_number(number)), " ".join(text)))
        case "kmsg", [text]:
            node.kmsg(text)
        case "link", [_, *_]:
            _link(node, words)
        case "power", ["off"]:
            node.power_off()
        case "power", ["on"]:
            node.power_on()
        case "freeze", [pattern]:
            node.freeze(pattern)
        case "thaw", [*pattern] if len(pattern) <= 1:
            node.thaw("".join(pattern))
        case _:
            raise TestbedError(f"{kind} {' '.join(words)}: see python -m testbed --help")


def _link(node: Node, words: Sequence[str]) -> None:
    match [*words]:
        case ["down"]:
            node.link_down()
        case ["up"]:
            node.link_up()
        case _:
            values = {
                key: _number(text) for key, text in _pairs(",".join(words).split(",")).items()
            }
            if unknown := values.keys() - {"delay", "loss", "rate"}:
                raise TestbedError(f"link: unknown key {min(unknown)!r}; delay, loss or rate")
            node.link(
                delay_ms=values.get("delay", 0),
                loss=values.get("loss", 0),
                rate_mbit=values.get("rate", 0),
            )


def xid_line(node: Node, number: int, text: str) -> str:
    """What the NVIDIA driver writes about an Xid of the node's first GPU."""
    gpus = shown(node.here).gpus
    if not gpus:
        raise TestbedError(f"{node.name} has no GPU")
    bus = gpus[0].pci.lower().removeprefix("0000").rpartition(".")[0]
    return f"NVRM: Xid (PCI:{bus}): {number}, {text or 'pid=4242, name=python'}"


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for key, separator, _ in pairs:
        if not separator:
            raise TestbedError(f"{key}: expected key=value")
    return {key: value for key, _, value in pairs}


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError as error:
        raise TestbedError(f"{text!r}: expected a number") from error
