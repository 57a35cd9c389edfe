"""Random schemas and random values: the engine accepts a value exactly if an independent validator says that it is valid.

    python tests/support/schema_fuzz.py --minutes 10            # prints what differs, and its seed
    python tests/support/schema_fuzz.py --only 4711             # one seed again
    python tests/support/schema_fuzz.py --key-order declared --early

All keywords occur in combination, with each other and with references. Values are random, or texts that the engine
itself generated, or those after a few random changes. Keys may come in any order, so that order decides nothing. With
`--key-order declared`, a value counts as accepted if it is with its keys in some order. The judge is jsonschema-rs. A
schema that is refused is counted; one that "no text satisfies" must have no valid value.

Texts that were generated are also damaged byte by byte: a character more or less, two that change places, a key that
comes twice, another escape. What the engine then still accepts must be JSON without repeated keys, and valid.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from itertools import permutations, product
from math import factorial, prod
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import jsonschema_rs
import numpy as np

import narrows
from narrows.errors import NarrowsError
from narrows.grammar.json_schema import normal

KEYS = ["a", "b", "c", "ab", "x1"]
STRINGS = ["", "a", "b", "ab", "ba", "abc", "1", "é", "x1", "2024-02-29"]
NUMBERS = [-3, -1, 0, 1, 2, 3, 4, 6, 10, 12, 0.5, 1.5, 2.25]
STEPS = [1, 2, 3, 7, 0.5, 0.25, 8, 12, 30, 84, 420, 1.5]
PATTERNS = [
    "^a",
    "b$",
    "a",
    "^[ab]*$",
    "^.{2}$",
    "[0-9]",
    "^(a|b)",
    "^(?!a)",
    "^$",
    "^(?:a(?!a)|b)+$",
    "^([^b]+(b|$))*$",
]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
OBJECT_KEYWORDS = [
    *("properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties"),
    *("maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "some"),
]
TOKENS = [*(bytes([b]) for b in range(256)), b""]
END = 256
EXPONENT = re.compile(rb"\d[eE][+-]?\d")
MEMBER = re.compile(rb'"[a-z0-9]*":("[a-z]*"|[0-9.]+|true|null|\[\]|\{\})')
PIECES = [
    b'"',
    b",",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b"0",
    b"1",
    b"-",
    b".",
    b"e",
    b"a",
    b" ",
    b"\\",
    b"\\u0061",
    b"\xff",
    b"\n",
]
POINT_ZERO = re.compile(rb"\d\.0+(?!\d)")
UNJUDGED = re.compile(rb"\d[\d.]{15,}|\\r|\\u000[dD]|\\u202[89]|\xe2\x80[\xa8\xa9]")
"""What the judge reads otherwise: it rounds numbers with more digits than a double holds, and its `.` matches every end
of a line but one, where ECMA-262 has four."""
VOCABULARY = narrows.Vocabulary(TOKENS, special={"<end>": END}, eos=[END])


class Schemas:
    """Writes one random schema."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.definitions = [f"d{k}" for k in range(rng.choice((0, 0, 1, 2)))]

    def document(self) -> Any:
        schema = self.schema(3)
        if self.definitions and isinstance(schema, dict):
            schema["$defs"] = {name: self.schema(2) for name in self.definitions}
        return schema

    def schema(self, depth: int) -> Any:
        rng = self.rng
        if depth == 0 or rng.random() < 0.12:
            return rng.choice((True, True, False, {}, {"type": rng.choice(TYPES)}, {"const": self.value(1)}))
        made: dict[str, Any] = {}
        if rng.random() < 0.75:
            made["type"] = rng.choice(TYPES) if rng.random() < 0.8 else rng.sample(TYPES, 2)
        kinds = made.get("type", rng.sample(TYPES, 2))
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            for _ in range(rng.choice((0, 1, 1, 2, 3))):
                made.update(self.of_type(kind, depth))
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            made.update(self.of_any(depth))
        items = list(made.items())
        rng.shuffle(items)
        return dict(items)

    def of_type(self, kind: str, depth: int) -> dict[str, Any]:
        rng, inner = self.rng, self.schema
        if kind in ("integer", "number"):
            keyword = rng.choice(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
            if keyword == "multipleOf":
                return {keyword: rng.choice(STEPS)}
            return {keyword: rng.choice(NUMBERS) * rng.choice((1, 1, 1, 100))}
        if kind == "string":
            keyword = rng.choice(("minLength", "maxLength", "pattern", "pattern", "format"))
            formats = ("date", "uuid", "ipv4", "of-our-own")
            return {
                keyword: rng.choice(formats)
                if keyword == "format"
                else rng.choice(PATTERNS)
                if keyword == "pattern"
                else rng.randint(0, 3)
            }
        if kind == "array":
            keyword = rng.choice(
                ("items", "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems")
            )
            if keyword == "prefixItems":
                return {keyword: [inner(depth - 1) for _ in range(rng.randint(1, 3))]}
            if keyword == "uniqueItems":
                return {keyword: True, "items": self.different(depth)}
            if keyword == "contains":
                more = {"minContains": rng.randint(0, 2)} if rng.random() < 0.5 else {}
                more |= {"maxContains": rng.randint(1, 3)} if rng.random() < 0.3 else {}
                return {keyword: inner(depth - 1), **more}
            return {
                keyword: rng.randint(0, 3)
                if keyword.endswith("Items") and keyword[:2] in ("mi", "ma")
                else inner(depth - 1)
            }
        if kind == "object":
            return self.of_object(depth)
        return {}

    def different(self, depth: int) -> Any:
        """Items that must differ: anything, nested, overlapping, or scalars."""
        rng, inner = self.rng, self.schema
        kind = rng.randrange(10)
        if kind == 0:
            return rng.choice(
                (True, {"type": ["array", "string"]}, {"type": "object"}, {"type": ["object", "integer"]})
            )
        if kind == 1:
            return {"$ref": f"#/$defs/{rng.choice(self.definitions)}" if self.definitions else "#"}
        if kind == 2:
            keys = rng.sample(KEYS, 2)
            named = {key: inner(depth - 1) for key in keys}
            branches = [{"properties": {key: named[key] for key in order}} for order in (keys, keys[::-1])]
            return {"anyOf": [{"type": "object", "additionalProperties": False, **branch} for branch in branches]}
        if kind == 3:
            return {"enum": [self.value(2) for _ in range(4)]}
        return inner(depth - 1) if kind < 7 else {"type": rng.choice(("string", "integer", "boolean"))}

    def of_object(self, depth: int) -> dict[str, Any]:
        rng, inner = self.rng, self.schema
        keyword = rng.choice(("properties", "properties", *OBJECT_KEYWORDS))
        if keyword == "properties":
            return {keyword: {key: inner(depth - 1) for key in rng.sample(KEYS, rng.randint(1, 3))}}
        if keyword == "some":
            return {"allOf": [self.some_key(depth) for _ in range(rng.randint(1, 4))]}
        if keyword == "required":
            return {keyword: rng.sample(KEYS, rng.randint(1, 2))}
        if keyword == "patternProperties":
            return {keyword: {rng.choice(PATTERNS): inner(depth - 1) for _ in range(rng.randint(1, 2))}}
        if keyword == "propertyNames":
            return {keyword: rng.choice(({"maxLength": 1}, {"pattern": rng.choice(PATTERNS)}, {"enum": KEYS[:3]}))}
        if keyword in ("minProperties", "maxProperties"):
            return {keyword: rng.randint(0, 3)}
        if keyword == "dependentRequired":
            return {keyword: {rng.choice(KEYS): rng.sample(KEYS, rng.randint(0, 2))}}
        if keyword == "dependentSchemas":
            return {keyword: {rng.choice(KEYS): inner(depth - 1)}}
        return {keyword: rng.random() < 0.3 or (False if rng.random() < 0.6 else inner(depth - 1))}

    def some_key(self, depth: int) -> Any:
        """Asks for a key of a kind."""
        rng = self.rng
        kind = rng.randrange(3)
        if kind == 0:
            return {"not": {"propertyNames": {"not": {"pattern": rng.choice(PATTERNS)}}}}
        value = rng.choice((False, self.schema(depth - 1), {"not": {"type": rng.choice(TYPES)}}))
        if kind == 1:
            return {"not": {"patternProperties": {rng.choice(PATTERNS): value}}}
        return {"not": {"properties": dict.fromkeys(rng.sample(KEYS, 2), True), "additionalProperties": value}}

    def of_any(self, depth: int) -> dict[str, Any]:
        rng, inner = self.rng, self.schema
        keyword = rng.choice(("enum", "const", "not", "if", "allOf", "anyOf", "anyOf", "oneOf", "oneOf", "$ref"))
        if keyword == "enum":
            return {keyword: [self.value(2) for _ in range(rng.randint(1, 4))]}
        if keyword == "const":
            return {keyword: self.value(2)}
        if keyword == "not":
            return {keyword: inner(depth - 1)}
        if keyword == "if":
            arms = [arm for arm in ("then", "else") if rng.random() < 0.7]
            return {keyword: inner(depth - 1), **{arm: inner(depth - 1) for arm in arms}}
        if keyword == "$ref":
            if not self.definitions:
                return {}
            return {keyword: f"#/$defs/{rng.choice(self.definitions)}" if rng.random() < 0.8 else "#"}
        return {keyword: [inner(depth - 1) for _ in range(rng.randint(1, 3))]}

    def value(self, depth: int) -> Any:
        rng = self.rng
        kind = rng.randrange(8 if depth else 5)
        if kind == 0:
            return rng.choice((None, True, False))
        if kind <= 2:
            if rng.random() < 0.4:  # so that some are multiples of several steps
                return rng.choice(STEPS[1:]) * rng.choice((1, 1, 10, 7, 3)) * rng.choice((-2, -1, 1, 2, 5, 17))
            return rng.choice(NUMBERS)
        if kind <= 4:
            return rng.choice(STRINGS)
        if kind == 5:
            return [self.value(depth - 1) for _ in range(rng.randint(0, 3))]
        return {key: self.value(depth - 1) for key in rng.sample(KEYS, rng.randint(0, 3))}

    def changed(self, value: Any) -> Any:
        """The value with one random change somewhere in it."""
        rng = self.rng
        if isinstance(value, list) and value and rng.random() < 0.8:
            at = rng.randrange(len(value))
            action = rng.randrange(4)
            if action == 0:
                return value[:at] + value[at + 1 :]
            if action == 1:
                return [*value, rng.choice(value)]
            return [*value[:at], self.changed(value[at]), *value[at + 1 :]]
        if isinstance(value, dict) and rng.random() < 0.8:
            keys = list(value)
            rng.shuffle(keys)
            action = rng.randrange(4)
            if action == 0 and keys:
                return {key: value[key] for key in keys[1:]}
            if action == 1 or not keys:
                return {**{key: value[key] for key in keys}, rng.choice(KEYS): self.value(1)}
            return {key: self.changed(value[key]) if key == keys[0] else value[key] for key in keys}
        return self.value(2)


def generated(matcher: narrows.Matcher, rng: Random, steps: int) -> bytes:
    row = np.zeros((len(TOKENS) + 31) // 32, dtype=np.int32)
    text = bytearray()
    for _ in range(steps):
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert len(allowed), f"a text has no way on: {bytes(text)!r}"
        ascii_only = allowed[(allowed < 128) | (allowed == END)]
        token = int(rng.choice(ascii_only if len(ascii_only) else allowed))
        assert matcher.accept(token), f"the mask allows byte {token}, which is refused, after {bytes(text)!r}"
        text += TOKENS[token]
        if token == END:
            break
    if not matcher.is_finished:
        text += b"".join(TOKENS[token] for token in matcher.shortest_end())
    return bytes(text)


def damaged(text: bytes, rng: Random) -> bytes:
    """The text with one or two small changes."""
    for _ in range(rng.choice((1, 1, 2))):
        at, other = rng.randrange(len(text)), rng.randrange(len(text))
        action = rng.randrange(6)
        if action == 0:
            text = text[:at] + text[at + 1 :]
        elif action == 1:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif action == 2:
            both = bytearray(text)
            both[at], both[other] = both[other], both[at]
            text = bytes(both)
        elif action == 3:
            start, end = sorted((at, other))
            text = text[:end] + text[start:end] + text[end:]
        elif action == 4:
            members = list(MEMBER.finditer(text))
            if members:
                member = rng.choice(members)
                text = text[: member.end()] + b"," + member.group() + text[member.end() :]
        elif text[at : at + 1].isalnum():
            text = text[:at] + b"\\u%04x" % text[at] + text[at + 1 :]
        text = text or b" "
    return text


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        raise ValueError("a key comes twice")
    return read


def reads(constraint: narrows.Constraint, text: bytes) -> bool:
    """Whether it is a text of the grammar. Read in pieces as long as tokens, each of which may take `step_work`."""
    matcher = constraint.matcher()
    pieces = (text[at : at + 4] for at in range(0, len(text), 4))
    return all(matcher.accept_bytes(piece) for piece in pieces) and matcher.is_accepting


def written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def check_damaged(judge: Any, constraint: narrows.Constraint, text: bytes, rng: Random) -> str | None:
    text = damaged(text, rng)
    try:
        if not reads(constraint, text) or UNJUDGED.search(text):
            return None
    except NarrowsError as error:
        return f"reading ends with {error.code} ({error}): {text!r}"
    try:
        value = json.loads(text, object_pairs_hook=once)
    except ValueError as error:
        return f"accepted, and not JSON ({error}): {text!r}"
    return None if judge.is_valid(value) else f"accepted, and not valid: {text!r}"


MOST_ORDERS = 400


def in_all_orders(value: Any) -> list[Any] | None:
    """The value with the keys of its objects in every order; None if these are too many."""
    if isinstance(value, list):
        items = [in_all_orders(item) for item in value]
        if any(item is None for item in items) or prod(map(len, items)) > MOST_ORDERS:
            return None
        return [list(way) for way in product(*items)]
    if not isinstance(value, dict):
        return [value]
    members = {key: in_all_orders(member) for key, member in value.items()}
    ways = prod([0 if one is None else len(one) for one in members.values()]) * factorial(len(members))
    if not 0 < ways <= MOST_ORDERS:
        return None
    return [
        dict(zip(keys, way, strict=True))
        for keys in permutations(members)
        for way in product(*[members[key] for key in keys])
    ]


def names_in(schema: Any) -> set[str]:
    """All keys of all objects in it. No key of `KEYS` is a keyword."""
    found: set[str] = set()
    rest = [schema]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            found.update(one)
            rest += one.values()
        elif isinstance(one, list):
            rest += one
    return found


class Checked(NamedTuple):
    outcome: str
    """What became of the schema."""
    differ: list[str]
    """What the engine and the judge disagree about."""
    texts: int = 0
    """So many texts the engine generated, or were made by changing one of those."""


def check(seed: int, values: int = 12, key_order: str = "any", keywords: frozenset[str] = frozenset()) -> Checked:
    """The schema with this number. With `key_order="declared"`, a value is accepted if it is with its keys in some
    order. With `keywords`, a schema that has none of them is left out, at little cost."""
    rng = Random(seed)
    make = Schemas(rng)
    schema = make.document()
    if keywords and keywords.isdisjoint(names_in(schema)):
        return Checked("left out", [])
    try:
        judge = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    except ValueError as error:
        return Checked(f"no schema for the judge: {type(error).__name__}", [])
    candidates = [make.value(3) for _ in range(values)]
    candidates += [[value] for value in candidates[:2]] + [{"a": value} for value in candidates[:2]]
    try:
        grammar = narrows.Grammar.from_json_schema(schema, whitespace="compact", key_order=key_order)
        constraint = VOCABULARY.compile(grammar)
    except NarrowsError as error:
        if error.code == "unsatisfiable":
            wrong = [json.dumps(value) for value in candidates if judge.is_valid(value)]
            return Checked("unsatisfiable", [f"no text satisfies it, and this is valid: {text}" for text in wrong])
        return Checked(f"{error.code} {getattr(error, 'limit', None) or ''}", [])
    differ: list[str] = []
    texts = 0
    for k in range(4):
        try:
            text = generated(constraint.matcher(), rng, 30)
        except NarrowsError as error:
            differ.append(f"generating ends with {error.code}: {error}")
            break
        except AssertionError as error:
            differ.append(f"generating: {error}")
            break
        if UNJUDGED.search(text):
            continue
        value = json.loads(text)
        if not judge.is_valid(value):
            differ.append(f"generated, and not valid: {text.decode()}")
        changed = [make.changed(value) for _ in range(2 if k else 4)]
        candidates += changed
        found = [check_damaged(judge, constraint, text, rng) for _ in range(8)]
        texts += 1 + len(changed) + len(found)
        differ += [one for one in found if one is not None]
    reasons = [status.reason for status in grammar.report.values()]
    is_under = any(words in reason for reason in reasons for words in ("one spelling", "two items are equal"))
    for value in candidates:
        orders = [value] if key_order == "any" else in_all_orders(value)
        if orders is None or UNJUDGED.search(json.dumps(value, ensure_ascii=False).encode()):
            continue
        text = written(value)
        try:
            accepted = any(reads(constraint, written(one)) for one in orders)
        except NarrowsError as error:
            differ.append(f"reading ends with {error.code} ({error}): {text.decode()}")
            continue
        if not accepted and (EXPONENT.search(text) or POINT_ZERO.search(text)):
            continue  # a number with a bound has no exponent, and an integer no fraction
        if not accepted and is_under:
            continue  # keys as declared, and no others; where a negation asks for equal items, none
        if accepted is not judge.is_valid(value):
            differ.append(f"{'accepted' if accepted else 'refused'} against the judge: {text.decode()}")
    return Checked("taken", [f"{one}\n    schema {json.dumps(schema, ensure_ascii=False)}" for one in differ], texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--only", type=int, help="this seed alone")
    parser.add_argument("--key-order", default="any", choices=("declared", "any"))
    parser.add_argument("--early", action="store_true", help="look early at branches, also where there are few")
    parser.add_argument("--out", type=Path, metavar="FILE", help="append what differs to this file")
    options = parser.parse_args()
    if options.early:
        normal._MANY = 1
    outcomes: Counter[str] = Counter()
    end = time.monotonic() + 60 * options.minutes
    seed, wrong = options.seed if options.only is None else options.only, 0
    while time.monotonic() < end:
        outcome, differ, _ = check(seed, key_order=options.key_order)
        outcomes[outcome] += 1
        for one in differ:
            wrong += 1
            sys.stdout.write(f"seed {seed}: {one}\n")
            if options.out is not None:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(f"seed {seed}: {one}\n")
        if options.only is not None:
            break
        seed += 1
    sys.stdout.write(f"{sum(outcomes.values()):,} schemas, {wrong} differences: {dict(outcomes.most_common())}\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
