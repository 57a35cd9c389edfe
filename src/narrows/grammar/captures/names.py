"""Names that may be read once in a run of a rule (`ir.Distinct`), as the strings that their bytes spell."""

from __future__ import annotations

import json

from narrows.grammar import ir

Names = frozenset[bytes]
NO_NAMES: Names = frozenset()
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def spelled(text: bytes, node: ir.Distinct | ir.Guard, only: bytes | None = None) -> bytes:
    """The name that a text spells. `only`: the name itself. The first byte tells strings from bytes."""
    if only is None and isinstance(node, ir.Distinct):
        only = node.name
    if only is not None:
        return (b"b" if node.spelling == "bytes" else b"s") + only
    if node.spelling == "json":
        return b"s" + str(json.loads(text, strict=False)).encode("utf-8", "surrogatepass")
    if node.spelling == "single":
        return b"s" + _between_single_quotes(text.decode()).encode()
    return b"b" + text


def _between_single_quotes(text: str) -> str:
    written, at, end = [], 1, len(text) - 1
    while at < end:
        if text[at] == "\\" and at + 1 < end:
            at += 1
            written.append(_ESCAPES.get(text[at], text[at]))
        else:
            written.append(text[at])
        at += 1
    return "".join(written)
