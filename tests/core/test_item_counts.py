"""Whether a text can still be ended, where a length or another counter stands beside patterns: judged by Python's `re`.

To answer, the core counts how many items each pattern needs and how many it can have (`automata/item_counts`). An error
there would refuse a text too early, or go on with one that has no end, in masks and steps alike.
"""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest

from narrows import Grammar, NarrowsError, Vocabulary

ITEMS = (".", "[ab]", "(ab?)", "(a|ab)", "(b|ab)", "(a\\.)", "[^b]", "(é|a)", "(bé?)", "(aa|b)", "é", "[é.]")


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    tokens = [bytes([byte]) for byte in range(256)]
    return Vocabulary([*tokens, b""], special={"<end>": 256}, eos=[256])


def pattern(choose: Random) -> str:
    def counter() -> str:
        least = choose.randint(0, 6)
        return choose.choice((f"{{{least},}}", f"{{{least},{least + choose.randint(1, 5)}}}", "*", "+", "?"))

    def piece() -> str:
        return choose.choice(ITEMS) + counter() + choose.choice(("", "", "a", "\\.", "b"))

    body = "".join(piece() for _ in range(choose.randint(1, 3)))
    around = choose.choice(("", "", "", "(?!.*aa)", "(?=.*b)", "(?!b)"))
    return choose.choice((f"^{around}{body}$", f"^({body}|{piece()})$", f"{choose.choice(ITEMS)}{{2,3}}a", "b.{2}a"))


def random_schema(choose: Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"allOf": [{"pattern": pattern(choose)} for _ in range(choose.randint(1, 3))]}
    if choose.random() < 0.3:
        schema["not"] = {"pattern": pattern(choose)}
    return schema


def lengths_near(text: str, choose: Random) -> dict[str, int]:
    """Some that the text has, and barely."""
    least, most = len(text) - choose.choice((0, 0, 1, 3)), len(text) + choose.choice((0, 0, 1, 3))
    found = {} if choose.random() < 0.2 else {"maxLength": most}
    return {**found, "minLength": least} if least > 0 and choose.random() < 0.8 else found


def fits(schema: dict[str, Any], text: str) -> bool:
    def has(one: dict[str, str]) -> bool:
        return re.search(one["pattern"].replace("$", r"\Z"), text) is not None

    in_length = schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", len(text))
    return in_length and all(map(has, schema["allOf"])) and not ("not" in schema and has(schema["not"]))


def check(vocabulary: Vocabulary, choose: Random) -> None:
    patterns = random_schema(choose)
    texts = {"".join(choose.choices("ab.é" if n % 2 else "aab", k=choose.randint(0, 22))) for n in range(400)}
    near = [text for text in sorted(texts) if fits(patterns, text)] or [""]
    schema = {**patterns, **lengths_near(choose.choice(near), choose)}
    valid = [text for text in sorted(texts) if fits(schema, text)]
    try:
        constraint = vocabulary.compile(Grammar.from_json_schema({"type": "string", **schema}))
    except NarrowsError as error:
        assert error.code == "unsatisfiable", (schema, error)  # noqa: PT017
        assert not valid, (schema, valid[0])
        return
    for text in valid[:40]:
        matcher = constraint.matcher()
        assert matcher.accept_bytes(json.dumps(text, ensure_ascii=choose.random() < 0.3).encode()), (schema, text)
        assert matcher.is_accepting, (schema, text)
    for text in sorted(texts)[:40]:
        matcher = constraint.matcher()
        assert matcher.accept_bytes(b'"')
        written = '"'
        for character in text:
            if not matcher.accept_bytes(character.encode()):
                break
            written += character
        end = bytes(token for token in matcher.shortest_end())
        assert fits(schema, json.loads(written + end.decode())), (schema, written, end)


@pytest.mark.parametrize("seed", range(150))
def test_random(vocabulary: Vocabulary, seed: int) -> None:
    for turn in range(4):
        check(vocabulary, Random(seed * 4 + turn))
