"""Fixed strings as nodes: text, and the names of special tokens in it.

A model that has `<tool_call>` as a special token writes this token, and no text can spell it. A string does not say
what in it is a token. So each part that looks like the name of one is an `ir.Marker`: the special token of this name if the
vocabulary has one, else its characters. Such a part is `<...>` or `[...]` around 1 to 64 characters, or `｜...｜`, and
without spaces, quotes, commas, `=`, braces or further brackets. In `<...>`, bars `｜` stand at both ends or nowhere.

Cost: linear, some 0.1 us per character.
"""

from __future__ import annotations

import re

from narrows.grammar import ir

_PLAIN = r"[^<>\[\]｜\s\"'=,{}]{1,64}"
_MARKER = re.compile(rf"<{_PLAIN}>|\[{_PLAIN}\]|<｜{_PLAIN}｜>|｜{_PLAIN}｜")
_WORD = re.compile(r"\w")


def spelled(text: str) -> ir.Node:
    """Exactly this text, with its special tokens. The text has no lone surrogates."""
    parts: list[ir.Node] = []
    at = 0
    for found in _MARKER.finditer(text):
        if _WORD.search(found[0]):
            parts += [ir.Bytes(text[at : found.start()].encode()), ir.Marker(found[0])]
            at = found.end()
    return ir.seq(*parts, ir.Bytes(text[at:].encode()))
