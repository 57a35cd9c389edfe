"""Where a text stands in its schema, and which keywords refuse what comes next."""

from __future__ import annotations

import copy
import json
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import narrows
from narrows.explaining import Tried, schema_place
from narrows.grammar.json_schema.cursor import Cursor, cursor

VOCABULARY = narrows.Vocabulary([bytes([b]) for b in range(256)] + [b""], special={"<end>": 256}, eos=[256])
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "kind": {"anyOf": [{"const": "a"}, {"enum": ["bb", "c"]}]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1, "maxItems": 2},
        "a/b": {"type": "null"},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
    "$defs": {"tag": {"enum": ["x", "y"]}},
}
BEGUN = '{"name": "ab", "age": 3, '
CASES = [
    ("3", "", "value", [""], ["/type"]),
    ('{"x', "", "key", [""], ["/required", "/additionalProperties"]),
    ('{"name": "a"', "/name", "value", ["/properties/name"], ["/properties/name/minLength"]),
    ('{"name": "ab"}', "", "next", [""], ["/required"]),
    ('{"name": "ab", "age": "', "/age", "value", ["/properties/age"], ["/properties/age/type"]),
    ('{"name": "ab", "age": 200', "/age", "value", ["/properties/age"], ["/properties/age/maximum"]),
    (BEGUN + '"kind": "bx', "/kind", "value", None, ["/properties/kind/anyOf/1/enum"]),
    (BEGUN + '"tags": []', "/tags/0", "value", None, ["/properties/tags/minItems"]),
    (BEGUN + '"tags": ["x", "z', "/tags/1", "value", ["/properties/tags/items", "/$defs/tag"], ["/$defs/tag/enum"]),
    (BEGUN + '"tags": ["x", "x",', "/tags", "next", ["/properties/tags"], ["/properties/tags/maxItems"]),
    (BEGUN + '"a/b": 0', "/a~1b", "value", ["/properties/a~1b"], ["/properties/a~1b/type"]),
    (BEGUN + '"kind" "', "", "colon", [""], []),
    ('{"name": "ab", "age": 3}x', "", "end", None, []),
    ('{"name": "ab", "age": 3', "", "next", [""], []),
]


def explained(schema: Any, text: str) -> narrows.constraint.Explanation:
    """The explanation of the first byte of the text that is refused, or of the end if none is."""
    matcher = VOCABULARY.compile(narrows.Grammar.from_json_schema(schema)).matcher()
    return matcher.explain(next((b for b in text.encode() if not matcher.accept(b)), 256))


@pytest.mark.parametrize(("text", "value", "part", "schemas", "keywords"), CASES, ids=[case[0] for case in CASES])
def test_the_place_is_named(text: str, value: str, part: str, schemas: list[str] | None, keywords: list[str]) -> None:
    place = explained(SCHEMA, text).place
    assert place is not None
    assert (place.value, place.part, list(place.keywords)) == (value, part, keywords)
    assert schemas is None or list(place.schemas) == schemas
    assert place.expected


@pytest.mark.parametrize("case", [case for case in CASES if case[4]], ids=lambda case: case[0])
def test_without_the_keywords_it_would_be_allowed_and_each_is_needed(case: Any) -> None:
    text, keywords = case[0], case[4]
    matcher = VOCABULARY.compile(narrows.Grammar.from_json_schema(SCHEMA)).matcher()
    fits = matcher.accepts(list(text.encode()))

    def allows(left_out: list[str]) -> bool:
        schema = copy.deepcopy(SCHEMA)
        for pointer in left_out:
            *path, keyword = [step.replace("~1", "/") for step in pointer.split("/")[1:]]
            holder: Any = schema
            for step in path:
                holder = holder[int(step) if isinstance(holder, list) else step]
            del holder[keyword]
        matcher = VOCABULARY.compile(narrows.Grammar.from_json_schema(schema)).matcher()
        return matcher.accepts(list(text.encode())) > fits

    assert allows(keywords)
    assert not any(allows([other for other in keywords if other != keyword]) for keyword in keywords)


def test_branches_that_say_the_same_of_one_place_are_to_blame_together() -> None:
    kinds = [{"properties": {"kind": {"const": name}}, "required": ["kind"]} for name in ("cat", "dog")]
    place = explained({"type": "object", "anyOf": kinds}, '{"kind": "x').place
    assert place is not None
    assert place.keywords == ("/anyOf/0/properties/kind/const", "/anyOf/1/properties/kind/const")


def test_an_explanation_names_the_place() -> None:
    said = str(explained(SCHEMA, '{"name": "ab", "age": t'))
    assert said.endswith("(/properties/age/type expects an integer of at least 0 and at most 150)")
    matcher = VOCABULARY.compile(narrows.Grammar.from_json_schema({"type": "integer"})).matcher()
    allowed = matcher.explain(ord("1"))
    assert allowed.allowed
    assert allowed.place is not None
    assert allowed.place.keywords == ()


def test_other_grammars_and_texts_that_are_not_tokens_have_no_place() -> None:
    assert VOCABULARY.compile(narrows.Grammar.from_regex("a+")).matcher().explain(0).place is None
    matcher = VOCABULARY.compile(narrows.Grammar.from_json_schema({"type": "integer"})).matcher()
    assert matcher.accept_bytes(b"1")
    assert matcher.explain(ord("x")).place is None


def test_the_work_is_bounded() -> None:
    tried = Tried(b"", b"1")
    place = schema_place(SCHEMA, {}, tried, VOCABULARY)
    assert place is not None
    assert place.keywords == ("/type",)
    place = schema_place(SCHEMA, {}, tried, VOCABULARY, work=200)
    assert place is not None
    assert place.keywords == ()
    assert schema_place(SCHEMA, {}, tried, VOCABULARY, work=10) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, st.booleans(), st.integers(0, 10_000))
def test_a_cursor_is_where_the_writer_is(value: Any, ascii_only: bool, cut: int) -> None:
    pieces = list(written(value, (), ascii_only))
    text = "".join(piece for piece, _ in pieces)
    cut %= len(text) + 1
    starts = [0, *accumulate(len(piece) for piece, _ in pieces)]
    inside = [place for (_, place), start, end in zip(pieces, starts, starts[1:], strict=False) if start <= cut < end]
    found = cursor(text[:cut])
    if cut in starts and text[:cut].endswith(tuple("0123456789")):  # a number may go on
        assert found.part == "value"
    else:
        assert (found.path, found.part) == ((inside[0].path, inside[0].part) if inside else ((), "end"))


def written(value: Any, path: tuple[str | int, ...], ascii_only: bool) -> Any:
    """The text of a value in pieces, each with the place of what lies before its last character."""
    inside = Cursor(path, "value")
    if isinstance(value, dict):
        yield "{", inside
        for number, (key, member) in enumerate(value.items()):
            if number:
                yield ",", Cursor(path, "next")
            yield json.dumps(key, ensure_ascii=ascii_only), Cursor(path, "key")
            yield ":", Cursor(path, "colon")
            yield from written(member, (*path, key), ascii_only)
        yield "}", Cursor(path, "next" if value else "key")
    elif isinstance(value, list):
        yield "[", inside
        for number, item in enumerate(value):
            if number:
                yield ",", Cursor(path, "next")
            yield from written(item, (*path, number), ascii_only)
        yield "]", Cursor(path, "next") if value else Cursor((*path, 0), "value")
    else:
        yield json.dumps(value, ensure_ascii=ascii_only), inside
