"""Guidance's own parser, which it calls for `match`, on grammars of its library. Its tokens are single bytes here, so
`max_tokens` counts bytes."""

from __future__ import annotations

import common
import guidance
from guidance import gen, one_or_more, regex, select

assert common.llguidance.__name__ == "narrows.compat.llguidance"
GRAMMARS = [
    ("a" + select(["foo", "bar", "food"]) + "!", [b"afoo!", b"abar!", b"afood!"], [b"ax!", b"afoo", b""]),
    (regex(r"[0-9]+-[a-z]{2}"), [b"12-ab"], [b"12-a", b"12-abc"]),
    (one_or_more(select(["ab", "c"])), [b"abcab"], [b"", b"aab"]),
    (gen(regex="[a-z]+"), [b"abc"], [b""]),
    (guidance.library.lark('start: "x" /[0-9]+/'), [b"x12"], [b"x", b"y"]),
    (gen(max_tokens=5), [b"", b"abcde"], [b"abcdef"]),
    ("c" + gen(regex="[ab]*", max_tokens=2) + "c", [b"cc", b"cabc"], [b"cabac", b"cab"]),
    (gen(stop=".") + "!", [b"ab.!"], [b"ab!", b"ab."]),
    (gen(stop=".", max_tokens=4) + "!", [b"ab.!"], [b"ab!"]),
]
for grammar, good, bad in GRAMMARS:
    assert all(grammar.match(text) is not None for text in good), good
    assert all(grammar.match(text) is None for text in bad), bad
for grammar, text, captures in (
    (select(["a", "b"], name="x"), b"a", {"x": "a"}),
    (gen("n", regex="[a-z]+") + ".", b"ab.", {"n": "ab"}),
):
    match = grammar.match(text)
    assert match is not None
    assert match.captures == captures
