"""Tells a Lark grammar from a GBNF one: vLLM's field `grammar` takes both.

The first line that looks like a definition decides. In GBNF and BNF it has a name and `::=`. In Lark it has a name and
`:`, or it is a statement (`%import`) or a comment (`//`). If no line looks like either, the text is taken for GBNF.

vLLM takes a text for Lark if it has no `::=` outside of comments.

Cost: linear in the text up to that line.
"""

from __future__ import annotations

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_CLOSING = {"{": "}", "[": "]"}


def is_lark(text: str) -> bool:
    """Whether this is meant as Lark."""
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        answer = _decides(text[at:end].strip())
        if answer is not None:
            return answer
        at = end + 1
    return False


def _decides(line: str) -> bool | None:
    """What a line says, if it says anything: True for Lark."""
    if line.startswith(("//", "%")):
        return True
    if not line or line.startswith("#"):
        return None
    if line.startswith("<"):  # plain BNF
        _, found, rest = line.partition(">")
        return False if found and rest.lstrip().startswith("::=") else None
    at = 0
    while at < len(line) and line[at] in "?!":
        at += 1
    begin = at
    while at < len(line) and line[at] in _NAME:
        at += 1
    if at == begin:
        return None
    rest = line[at:].lstrip()
    while rest and rest[0] in _CLOSING:  # parameters of a template, options of a rule
        rest = _after(rest, _CLOSING[rest[0]]).lstrip()
    if rest.startswith("."):  # a priority after them
        rest = rest[1:].lstrip("0123456789").lstrip()
    if rest.startswith("::="):
        return False
    return True if rest.startswith(":") else None


def _after(line: str, mark: str) -> str:
    """What stands behind this mark, which is not in a string."""
    in_string = False
    for at, char in enumerate(line):
        if char == '"':
            in_string = not in_string
        elif char == mark and not in_string:
            return line[at + 1 :]
    return ""
