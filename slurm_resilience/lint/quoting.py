"""Quotes and brackets of bash: where they end, what is left of them."""

import re


def closing(text: str, at: int, close: str) -> int:
    """Index behind the *close* that belongs to what was opened before *at*; -1: there is none."""
    stack = [close]
    while at < len(text):
        one, top = text[at], stack[-1]
        if one == "\\" and top != "'":
            at += 2
            continue
        at += 1
        if one == top:
            stack.pop()
            if not stack:
                return at
        elif top == "'":
            continue
        elif one == "$" and text[at : at + 1] in {"(", "{"}:
            stack.append(")" if text[at] == "(" else "}")
            at += 1
        elif one == "`" or (top != '"' and one in "'\""):
            stack.append(one)
        elif one == "(" and top == ")":
            stack.append(")")
    return -1


def unquoted(inside: str, quote: str) -> str:
    """What bash makes of text that stood between two *quote*."""
    return inside if quote == "'" else re.sub(r'\\([$`"\\])', r"\1", inside.replace("\\\n", ""))
