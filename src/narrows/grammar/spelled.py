"""Fixed strings as nodes: text, and the names of special tokens in it.

A model that has `<tool_call>` as a special token writes this token, and no text can spell it. A string does not say
what in it is a token. So each part that looks like the name of one is an `ir.Marker`: the special token of this name
if the vocabulary has one, else its characters. Such a part is `<...>` or `[...]` around 1 to 64 characters, or
`｜...｜`, and without spaces, quotes, commas, `=`, braces or further brackets. In `<...>`, bars `｜` stand at both ends
or nowhere.

Cost: linear, some 0.1 us per character.
"""

from __future__ import annotations

from narrows.grammar import ir

_LONGEST = 64
_CLOSERS = {"<": ">", "[": "]", "｜": "｜"}
_NOT_IN_A_NAME = frozenset("<>[]｜\"'=,{}")


def spelled(text: str) -> ir.Node:
    """Exactly this text, with its special tokens. The text has no lone surrogates."""
    parts: list[ir.Node] = []
    done = 0
    for start, character in enumerate(text):
        if start < done or character not in _CLOSERS:
            continue
        end = _end_of_name(text, start)
        if end >= 0:
            parts += [ir.Bytes(text[done:start].encode()), ir.Marker(text[start:end])]
            done = end
    return ir.seq(*parts, ir.Bytes(text[done:].encode()))


def _end_of_name(text: str, start: int) -> int:
    """Where the name of a token ends that begins here; -1 if none does."""
    closer, begin = _CLOSERS[text[start]], start + 1
    if text.startswith("<｜", start):
        closer, begin = "｜>", start + 2
    end = text.find(closer, begin, begin + _LONGEST + len(closer))
    name = text[begin:end]
    is_name = (
        end >= 0 and _NOT_IN_A_NAME.isdisjoint(name) and not any(map(str.isspace, name)) and any(map(str.isalnum, name))
    )
    return end + len(closer) if is_name else -1
