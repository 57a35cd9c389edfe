"""Random schemas, patterns and grammars for which xgrammar 0.2.8 and narrows both promise the same texts.

Left out is what test_differences.py names: numbers with exponents and `-0`, strings of bounded length, further keys, branches with other keys, escapes of characters, and what xgrammar
does not enforce.
"""

from __future__ import annotations

from random import Random
from typing import Any

TOKENS = [
    "</s>", "", *"abcxy01259", "é", " ", "\n", "\t", '"', "{", "}", "[", "]", ":", ",", "-", "\\", "n",
    '{"', '"}', '":', '": ', '", "', "ab", "ba", "true", "false", "null", "}]", "[[", "10", "25", "a-b", "\\n", 'a"', '"a":', "xy",
]  # fmt: skip
"""The first is the stop token. Single characters and runs of them across the borders of JSON's parts."""

KEYS = ("a", "b", "ab", "xy", "n")


def schema(rng: Random, depth: int = 0) -> dict[str, Any]:
    kinds = ["string", "integer", "boolean", "null", "enum", "const"]
    if depth < 3:
        kinds += ["object", "object", "array", "anyOf", "tuple"]
    kind = rng.choice(kinds)
    if kind == "integer":
        low = rng.randint(1, 30)
        return {"type": "integer", "minimum": low, "maximum": low + rng.randrange(300)}
    if kind == "enum":
        return {"enum": rng.sample(["a", "ab", "xy", 1, 25, True, None, "a-b", "b b"], rng.randint(1, 4))}
    if kind == "const":
        return {"const": rng.choice(["a", "", 10, False, None])}
    if kind == "anyOf":
        branches = [schema(rng, depth + 1) for _ in range(rng.randint(1, 3))]
        return {"anyOf": [branch for branch in branches[1:] if _is_scalar(branch)] + branches[:1]}
    if kind == "array":
        least = rng.randrange(3)
        sizes = rng.choice([{}, {"minItems": least}, {"minItems": least, "maxItems": least + rng.randrange(1, 3)}])
        return {"type": "array", "items": schema(rng, depth + 1), **sizes}
    if kind == "tuple":
        return {
            "type": "array",
            "prefixItems": [schema(rng, depth + 1) for _ in range(rng.randint(1, 3))],
            "minItems": 1,
        }
    if kind == "object":
        keys = rng.sample(KEYS, rng.randint(0, 4))
        required = [key for key in keys if rng.random() < 0.5]
        made: dict[str, Any] = {"type": "object", "properties": {key: schema(rng, depth + 1) for key in keys}}
        return {**made, "required": required} if required else made
    return {"type": kind}


def _is_scalar(made: dict[str, Any]) -> bool:
    return made.get("type") in ("string", "integer", "boolean", "null") or "enum" in made


def pattern(rng: Random, depth: int = 0) -> str:
    atoms = ["a", "b", "x", "é", "[ab]", "[^a]", ".", r"\d", r"\w", "-", r"\n", "1", " "]
    parts = []
    for _ in range(rng.randint(1, 3)):
        part = rng.choice(atoms)
        if depth < 2 and rng.random() < 0.4:
            part = f"({pattern(rng, depth + 1)}|{pattern(rng, depth + 1)})"
        parts.append(part + rng.choice(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}"]))
    return "".join(parts)


def ebnf(rng: Random) -> str:
    names = ["root", "r1", "r2"]

    def sequence(reaches: list[str]) -> str:
        items = []
        for _ in range(rng.randint(1, 3)):
            item = rng.choice(['"a"', '"ab"', "[a-c]", "[^a]", '"é"', '"1"', '"-"', *reaches, *reaches])
            items.append(item + rng.choice(["", "", "", "*", "?", "+", "{1,2}"]))
        return " ".join(items)

    lines = []
    for k, name in enumerate(names):
        options = [f'"x" {sequence(names)}', sequence(names[k + 1 :]), sequence([])]
        lines.append(f"{name} ::= " + " | ".join([*rng.sample(options, rng.randint(1, 2)), '"y"']))
    return "\n".join(lines) + "\n"
