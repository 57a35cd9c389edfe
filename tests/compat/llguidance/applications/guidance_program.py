"""Guidance's own parser, which it calls for `match`, on grammars of its library. Names (captures), `stop` and
`max_tokens` are refused."""

from __future__ import annotations

import common
import guidance
from guidance import gen, one_or_more, regex, select

from narrows import UnsupportedError

assert common.llguidance.__name__ == "narrows.compat.llguidance"
GRAMMARS = [
    ("a" + select(["foo", "bar", "food"]) + "!", [b"afoo!", b"abar!", b"afood!"], [b"ax!", b"afoo", b""]),
    (regex(r"[0-9]+-[a-z]{2}"), [b"12-ab"], [b"12-a", b"12-abc"]),
    (one_or_more(select(["ab", "c"])), [b"abcab"], [b"", b"aab"]),
    (gen(regex="[a-z]+"), [b"abc"], [b""]),
    (guidance.library.lark('start: "x" /[0-9]+/'), [b"x12"], [b"x", b"y"]),
]
for grammar, good, bad in GRAMMARS:
    assert all(grammar.match(text) is not None for text in good), good
    assert all(grammar.match(text) is None for text in bad), bad
for refused in (select(["a", "b"], name="x"), gen(stop="."), gen(max_tokens=5)):
    try:
        refused.match(b"a")
    except UnsupportedError:
        continue
    raise AssertionError(refused)
